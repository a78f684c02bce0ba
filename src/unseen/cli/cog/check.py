"""`unseen cog check`: what is there of ImageNet, what is missing, and what a run would cost on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.options import HomeOption, JsonOption, split_names

if TYPE_CHECKING:
    from unseen.benchmarks.cog.check import ImageNetCheck
    from unseen.benchmarks.cog.cost import CogPlan, ImageSet, ModelSpeed, ProbeCost
    from unseen.benchmarks.cog.machines import Price
    from unseen.data.sources.imagenet.cog import Caps


def check(
    root: Annotated[Path | None, typer.Argument(help="ImageNet-21K: folders or tar files per concept.")] = None,
    levels: Annotated[Path | None, typer.Option(help="Levels, from `unseen cog levels --out`.")] = None,
    in1k: Annotated[Path | None, typer.Option(help="ImageNet-1K, to look at too.")] = None,
    split: Annotated[Path | None, typer.Option(help="The authors' image lists.")] = None,
    train: Annotated[int, typer.Option(help="At most so many training images per concept.")] = 1300,
    test: Annotated[int, typer.Option(help="Exactly so many test images per concept.")] = 50,
    least: Annotated[int, typer.Option(help="At least so many training images per concept.")] = 732,
    plan: Annotated[bool, typer.Option("--plan", help="Measure this machine and say what the run will cost.")] = False,
    models: Annotated[list[str] | None, typer.Option("--models", help="With --plan: the models of the run.")] = None,
    dtype: Annotated[str, typer.Option(help="With --plan: of the stored features.")] = "float32",
    cpu_gflops: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="With --plan: of the CPU in float32; that of this machine, measured, by default."
        ),
    ] = None,
    gpu_gflops: Annotated[
        float, typer.Option(metavar="X", help="With --plan: of one GPU in float32; an A100's by default.")
    ] = 19_500.0,
    memory_limit: Annotated[
        int, typer.Option(metavar="MB", help="With --plan: as in cog run; 0 is a quarter of the machine's.")
    ] = 0,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Say in seconds what is missing and which concepts are short of images; with --plan, what the run will cost.

    Without ROOT, --plan is about the whole of ImageNet-CoG as the paper has it.
    """
    from unseen.cli.tables import console, count, print_json
    from unseen.core.errors import DataError, UsageError
    from unseen.data.sources.imagenet.cog import Caps

    if root is None and not plan:
        raise UsageError("give the ImageNet-21K root to check, or --plan for the cost of the whole of ImageNet-CoG.")
    found: dict[str, Any] = {}
    lines: list[str] = []
    problems: Sequence[str] = ()
    sets = None
    if root is not None:
        seen = _look(root, levels, in1k, split, Caps(train, test, least))
        found, lines, sets, problems = seen.to_dict(), seen.lines(), seen.sets, seen.problems
    if plan:
        cost = _plan(sets, split_names(models) or ["packaged:efficientnet-lite0"], dtype, memory_limit, home)
        prices = _prices(cost, cpu_gflops, gpu_gflops)
        lines += [*cost.lines(), *(each.line() for each in prices)]
        found["plan"] = {**cost.to_dict(), "machines": [each.to_dict() for each in prices]}
    if as_json:
        print_json(found)
    else:
        for line in lines:
            console().print(line, soft_wrap=True, markup=False)
    if problems:
        raise DataError(f"{count(len(problems), 'problem')}. The first: {problems[0]}.")


def _look(root: Path, levels: Path | None, in1k: Path | None, split: Path | None, caps: Caps) -> ImageNetCheck:
    from unseen.benchmarks.cog.check import check_imagenet
    from unseen.data.sources.imagenet.cog import read_levels
    from unseen.data.sources.imagenet.source import levels_file

    named = read_levels(levels if levels is not None else levels_file(None))
    return check_imagenet(root, named, in1k=in1k, split=split, caps=caps)


def _plan(
    sets: Sequence[ImageSet] | None, models: Sequence[str], dtype: str, memory_limit: int, home: Path | None
) -> CogPlan:
    from unseen.benchmarks.cog.cost import FULL_COG, plan_cost

    speeds = [_speed(model, home) for model in models]
    limit = memory_limit * 1_000_000 or None
    return plan_cost(sets or FULL_COG, speeds, probe=_probe_cost(), dtype=dtype, memory_limit=limit)


def _prices(plan: CogPlan, cpu: float | None, gpu: float) -> list[Price]:
    from unseen.benchmarks.cog.machines import price, usual_machines
    from unseen.benchmarks.cog.sample_images import peak_gflops

    measured = peak_gflops()
    # Hours were measured here; a CPU that was given is another machine.
    return price(plan, measured, usual_machines(cpu or measured, gpu))


def _speed(model: str, home: Path | None) -> ModelSpeed:
    """Images per second of a model on photographs of ImageNet's usual size, made here."""
    from unseen.backbones import load_backbone
    from unseen.benchmarks.cog.cost import ModelSpeed
    from unseen.benchmarks.cog.sample_images import imagenet_like
    from unseen.core.files import home as home_folder
    from unseen.features.speed import measure_speed

    backbone = load_backbone(model)
    rate = measure_speed(backbone, imagenet_like(), graphs=home_folder(home) / "graphs")
    return ModelSpeed(model, backbone.feature_dim, rate)


def _probe_cost() -> ProbeCost:
    from unseen.benchmarks.cog.cost import fit_probe_cost
    from unseen.benchmarks.cog.sample_images import time_probes

    return fit_probe_cost(time_probes())
