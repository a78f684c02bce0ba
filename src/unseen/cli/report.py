"""`unseen report`: the page of stored results, and its figures as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from unseen.benchmarks.workbench import Workbench, kept_cards
from unseen.cli.application import HomeOption, JsonOption, split_names
from unseen.cli.results import BenchmarkOption, DatasetOption, StudyOption, selected
from unseen.cli.run import dataset_cards_of, model_cards_of
from unseen.cli.tables import count, print_json, say
from unseen.core.errors import UsageError
from unseen.core.files import home as home_folder
from unseen.reports.page import class_pictures
from unseen.reports.theme import FORMATS, write_figures
from unseen.run.record import file_name, make_report


def report(
    study: StudyOption = None,
    models: Annotated[
        list[str] | None, Option("--models", metavar="NAME ...", help="Only these models: ids, or parts of ids.")
    ] = None,
    benchmark: BenchmarkOption = None,
    dataset: DatasetOption = None,
    out: Annotated[
        Path | None, Option("--output", metavar="FILE", help="Output file; HOME/reports/STUDY.html by default.")
    ] = None,
    title: Annotated[str, Option(help="Title of the page.")] = "",
    figures: Annotated[
        Path | None,
        Option("--figures", metavar="FOLDER", help="Instead, write every figure as a file, one paper column wide."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        Option("--format", metavar="NAME ...", help="Formats of --figures: pdf, svg, png; all by default."),
    ] = None,
    show: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Write the page of stored results; no model is loaded and nothing is computed.

    Without --study, one page contains the results of all studies; results that do not compare are shown separately.
    """

    names = {"study": study, "benchmark": benchmark, "model": split_names(models), "dataset": dataset}
    with selected(home, names, parts=True) as (database, chosen):
        found = database.latest(**chosen)
    if not found:
        raise UsageError("there are no such results. `unseen results` lists all results.")
    bench = Workbench(home_folder(home))
    page = make_report(
        found,
        title=title or f"Results of {', '.join(study) if study else 'all studies'}",
        cards=model_cards_of(found) | kept_cards(bench.home),
        dataset_cards=dataset_cards_of(found),
        picture=class_pictures(bench.dataset) if figures is None else lambda dataset, name: "",  # files show none
    )
    if figures is not None:
        kinds = split_names(formats) or list(FORMATS)
        drawn = sum(len(section.figures) for section in page.sections)
        say(f"drawing {count(drawn, 'figure')} as {', '.join(kinds)}", error=True)
        written = write_figures(page.sections, figures, kinds)
        if as_json:
            print_json({"figures": [str(path) for path in written]})
        else:
            say(f"{count(len(written), 'file')} written to {figures}")
        return
    path = page.write(out or bench.home / "reports" / f"{file_name('-'.join(study or ['all']))}.html")
    if as_json:
        print_json({"report": str(path), "results": len(found), "failed": sum(not result.ok for result in found)})
    else:
        for _, headline in page.headlines:
            sure = f" ({headline.sure})" if headline.sure else ""
            say(f"{headline.question}: {headline.text}{sure}")
        say(f"Report: {path} ({count(len(found), 'result')})")
    if show:
        typer.launch(path.resolve().as_uri())
