"""`unseen cog noise` and `unseen cog finetune`: the two side experiments of the paper's supplement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.cog_run import DataOption, datasets_of, split_names
from unseen.cli.run import DryRunOption, HomeOption, ReportOption


def noise(
    data: DataOption = "packaged:emoji",
    model: Annotated[str, typer.Option("--model", help="Whose features.")] = "packaged:efficientnet-lite0",
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Confidence above which to list an image.")] = 0.99,
    levels: Annotated[int, typer.Option(min=1, help="Levels of unseen concepts.")] = 5,
    most: Annotated[int, typer.Option(min=0, help="Show at most so many images per pair.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    home: HomeOption = None,
) -> None:
    """List images that a classifier of other concepts is sure of: missing labels, most of the time (supplement A.3)."""
    from dataclasses import asdict

    from unseen.benchmarks import Workbench
    from unseen.benchmarks.cog.domains import DomainRecipe
    from unseen.benchmarks.cog.noise import label_noise
    from unseen.cli.progress import RichProgress
    from unseen.cli.tables import console, print_json, print_table
    from unseen.core.files import home as home_folder

    bench = Workbench(home_folder(home), progress=RichProgress(console(error=True)))
    reports = label_noise(bench, model, data, recipe=DomainRecipe(levels=levels), threshold=threshold)
    if as_json:
        print_json([asdict(report) for report in reports])
        return
    rows = [[r.classifier, r.domain, f"{r.images:,}", f"{r.share:.1%}"] for r in reports]
    print_table(
        ["classifier of", "images of", "images", "surer than asked"],
        rows,
        title=f"{model}: predictions above {threshold:g} for concepts that the classifier does not know",
        numeric=("images", "surer than asked"),
    )
    seen = [
        [r.classifier, s.image, s.true, s.predicted, f"{s.confidence:.4f}"] for r in reports for s in r.suspects[:most]
    ]
    if seen:
        print_table(["classifier of", "image", "labelled", "predicted", "confidence"], seen, numeric=("confidence",))


def finetune(
    data: DataOption = "packaged:emoji",
    models: Annotated[list[str] | None, typer.Option("--models", help="Models.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of SGD in each run.")] = 200,
    rates: Annotated[str, typer.Option(help="Learning rates to choose from on validation images.")] = "0.1,0.01",
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    levels: Annotated[int, typer.Option(min=1, help="Levels of unseen concepts.")] = 5,
    name: Annotated[str, typer.Option("--study", help="File the results under this name.")] = "cog-finetune",
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    report: ReportOption = None,
) -> None:
    """Fine-tune on every level, and set frozen probes beside it (supplement C.2). Resumable."""
    from unseen.cli.run import run_and_report
    from unseen.core.errors import UsageError
    from unseen.study import Study

    try:
        parsed = [float(rate) for rate in rates.split(",")]
    except ValueError:
        raise UsageError(f"--rates {rates!r} are not numbers separated by commas.") from None
    study = Study.parse(
        {
            "name": name,
            "title": "Fine-tuning against frozen features",
            "models": split_names(models) or ["packaged:efficientnet-lite0"],
            "datasets": datasets_of(data, levels),
            "benchmarks": {
                "cog": {"levels": levels, "seeds": [22]},
                "cog-finetune": {"levels": levels, "steps": steps, "rates": parsed, "batch_size": batch_size},
            },
        },
        source="unseen cog finetune",
        base=Path.cwd(),
    )
    run_and_report(study, dry_run=dry_run, home=home, engine=("local", {"workers": 1}), report=report)
