r"""Stored results as text: names to show, tables, failures; for papers LaTeX, Markdown and BibTeX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from rich.text import Text

from unseen import __version__
from unseen.backbones.load import BACKBONES
from unseen.benchmarks.citations import bibtex, citation_keys, method_paragraphs
from unseen.cli.tables import count, say_written
from unseen.core.errors import UsageError
from unseen.core.names import Name
from unseen.core.records import DatasetCard, ModelCard, Result
from unseen.core.source import C, Catalogue, S
from unseen.data.load import SOURCES
from unseen.reports.wording import setting_text, short_names
from unseen.results import render
from unseen.results.export import to_json, write_lines
from unseen.results.info import info_of
from unseen.results.table import Table, result_tables

_ON_DISK = ("folder:", "csv:", "parquet:", "zip:", "wds:")

_HEAD = r"% Made by `unseen results --latex`. In the preamble: \usepackage{booktabs}"


def write_papers(found: Sequence[Result], metrics: Sequence[str], targets: Mapping[str, str]) -> None:
    """Write tables of results, methods and citations.

    Args:
        targets: by format ("latex", "markdown", "bibtex", "model-card", "csv" or "json"), the file, "-" for standard
            output, or "".

    Raises:
        UsageError: there is no result to write.
    """
    if not found:
        raise UsageError("there are no results to write: none has these names, or all of them failed.")
    cited = found, model_cards_of(found), dataset_cards_of(found)
    names = display_names(found)
    tables, methods = result_tables(found, names, metrics), method_paragraphs(found, names)
    if not tables:
        raise UsageError(f"no result has {' or '.join(metrics)}.")
    words = [f"{render.markdown_words(text)}\n" for text, _ in methods]
    texts: Mapping[str, Callable[[], str]] = {
        "bibtex": lambda: bibtex(*cited),
        "latex": lambda: _latex(tables, methods, citation_keys(*cited)),
        "markdown": lambda: "\n".join([*map(render.markdown_table, tables), *words]),
        "model-card": lambda: render.model_card(found, names, __version__),
        "csv": lambda: "\n".join(map(render.csv_table, tables)),
        "json": lambda: to_json([table.to_dict() for table in tables]) + "\n",
    }
    for form, target in targets.items():
        if target:
            write_lines(target, [texts[form]()])
            say_written(target)


def _latex(tables: Sequence[Table], methods: Sequence[tuple[str, Sequence[str]]], keys: Mapping[str, str]) -> str:
    """Return a file to \\input: all tables, then a paragraph on each benchmark."""
    paragraphs = [
        render.latex_text(text) + "".join(rf" \cite{{{keys[each]}}}" for each in ("unseen", *citations))
        for text, citations in methods
    ]
    shown = [render.latex_table(table, f"tab:unseen-{number}") for number, table in enumerate(tables, 1)]
    return "\n".join([_HEAD, *shown, *(rf"\paragraph{{Protocol.}} {text}" + "\n" for text in paragraphs)])


def tables_of(found: Sequence[Result], metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of results, with names to show."""
    return result_tables(found, display_names(found), metrics)


def failure_lines(failed: Sequence[Result]) -> Iterator[Text]:
    """Yield lines on cells that failed, those of one model, dataset and reason together."""
    alike: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in failed:
        cell = result.cell
        reason = " ".join(result.error.split())
        alike.setdefault((cell.benchmark, cell.model, cell.dataset, reason), []).append(result)
    if failed:
        yield Text(f"{count(len(failed), 'cell')} failed", style="bold")
    for (benchmark, model, dataset, reason), cells in alike.items():
        more = f", and {len(cells) - 1:,} more" if len(cells) > 1 else ""
        yield Text(f"  {benchmark} · {model} · {dataset}")
        yield Text(f"    {setting_text(cells[0].cell.parameters)}{more}", style="dim")
        yield Text(f"    {reason}", style="red")


def display_names(found: Sequence[Result]) -> dict[str, str]:
    """Return the names to show of benchmarks, models and datasets, by id."""
    benchmarks = {name: info_of(name).title for name in {result.cell.benchmark for result in found}}
    models = dict.fromkeys(result.cell.model for result in found)
    data = short_names(dict.fromkeys(result.cell.dataset for result in found), dataset_cards_of(found))
    # A folder or file is called by its last part, if no other one has the same.
    folders = {n: PurePath(n.partition(":")[2].partition("?")[0]).name for n in data if n.startswith(_ON_DISK)}
    once = {name: part for name, part in folders.items() if list(folders.values()).count(part) == 1}
    return {**benchmarks, **short_names(models, model_cards_of(found)), **data, **once}


def model_cards_of(found: Collection[Result]) -> dict[str, ModelCard]:
    """Return the cards of the models of some results that their sources list, without loading a model."""
    models = {result.cell.model for result in found}
    return {name: card for name, card in _listed_cards(BACKBONES, models).items() if name in models}


def _listed_cards(catalogue: Catalogue[S, C], names: Iterable[str]) -> dict[str, C]:
    """Return all cards of the sources of some names, by id; other sources are not imported."""
    schemes = {name.partition("?")[0].partition(":")[0] for name in names}
    sources = [catalogue.get(scheme) for scheme in sorted(schemes) if scheme in catalogue]
    return {card.id: card for source in sources if source.listed for card in source.cards()}


def dataset_cards_of(found: Collection[Result]) -> dict[str, DatasetCard]:
    """Return the cards of datasets that are listed by name, with their options, such as `?labels=coarse`, in the name.

    The folder of the data (`root`) is no part of a name, except its last part if datasets differ in it.
    """
    datasets = {result.cell.dataset for result in found}
    listed, cards = _listed_cards(SOURCES, datasets), {}
    parsed = {each: Name.parse(each).options for each in datasets if each.partition("?")[0] in listed}
    roots = {options["root"] for options in parsed.values() if "root" in options}
    for dataset, options in parsed.items():
        card = listed[dataset.partition("?")[0]]
        shown = {**options, "root": PurePath(options["root"]).name} if "root" in options else options
        options_shown = [f"{key} {value}" for key, value in shown.items() if key != "root" or len(roots) > 1]
        cards[dataset] = replace(card, id=dataset, name=", ".join([card.name or card.id, *options_shown]))
    return cards
