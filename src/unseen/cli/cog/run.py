"""`unseen cog run`, `finetune`, `chart` and `noise`: run the benchmark, draw its figures, measure label noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.backbones.load import resolve_model
from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.analysis import (
    concept_scores,
    level_scores,
    order_shots,
    settings,
    shots_sentence,
    trend_sentences,
)
from unseen.benchmarks.cog.check import PAPER_SHOTS
from unseen.benchmarks.cog.details import ALL
from unseen.benchmarks.cog.domains import CONTROL, DomainRecipe
from unseen.benchmarks.cog.figures import FIGURES, Request, draw
from unseen.benchmarks.cog.noise import label_noise
from unseen.benchmarks.cog.section import images_text, level_tables
from unseen.cli.application import DEFAULT_MODELS, HomeOption, JsonOption, ModelsOption, split_names
from unseen.cli.audit import answers_for
from unseen.cli.run import Draft, display_names, model_cards_of, open_results, run_draft, show_results, study_command
from unseen.cli.tables import ConsoleProgress, console, print_json, print_model, say
from unseen.concepts import load_wordnet, map_classes, read_seen
from unseen.core.class_table import OPEN
from unseen.core.errors import DataError
from unseen.core.files import at_home
from unseen.core.files import home as home_folder
from unseen.core.identity import resolve_file
from unseen.core.names import Name
from unseen.core.records import Result
from unseen.data.columns import read_table
from unseen.data.load import load_dataset, resolve_dataset
from unseen.data.sources.imagenet.cog import read_concepts
from unseen.data.sources.imagenet.source import levels_file
from unseen.reports import save_chart
from unseen.reports.page import class_pictures
from unseen.reports.wording import listed
from unseen.results import Group

_DATA = ("packaged:emoji",)
#: Options that build new levels; without them, the levels of ImageNet are those of its file.
_NEW_LEVELS = ("levels", "size", "measure", "seen", "ontology")
_MOST_SHOWN, _MOST_SENSES = 10, 3


def _prepare(draft: Draft) -> None:
    """Replace the data by datasets whose classes have ids: see `imagenet_data` and `data_with_ids`."""
    (options,) = draft.benchmarks.values()
    found = [imagenet_data(name, options, draft.home) for name in draft.data]
    draft.data = [data_with_ids(name, options, draft.home) for name in found]
    if all(name.startswith("imagenet:") for name in found):
        draft.extraction.setdefault("truncated", "accept")  # truncated images, as the authors do


def _prepare_finetuning(draft: Draft) -> None:
    """Plan frozen probes on the same domains first, for the comparison."""
    _prepare(draft)
    (options,) = draft.benchmarks.values()
    shared = {f.name for f in fields(DomainRecipe)} | {"seeds"}
    frozen = {"seeds": "22,", **{name: value for name, value in options.items() if name in shared}}
    draft.benchmarks = {"cog": frozen, **draft.benchmarks}


def imagenet_data(name: str, options: dict[str, object], home: Path | None) -> str:
    """Return `imagenet?train=8` as the dataset of all its concepts, with the levels of its file by default.

    If a file of levels has no other concepts than the default file, the features extracted for the default are used.
    """
    parsed = Name.parse(name)
    if parsed.scheme != "imagenet" or parsed.rest not in ("", "cog"):
        return name
    value = str(options.get("levels", ""))
    file = resolve_file(value, Path.cwd()) if value and not value.isdecimal() else ""
    with at_home(home_folder(home)):
        try:
            base = levels_file(parsed.options.get("levels"))
        except DataError:
            if not file:
                raise
            base = Path(file)
    if file and not set(read_concepts(file, gaps=False)) <= set(read_concepts(base)):
        base = Path(file)
    if not any(option in options for option in _NEW_LEVELS):
        options["levels"] = str(base.resolve())
    return str(Name("imagenet", "cog", dict(sorted({**parsed.options, "levels": str(base.resolve())}.items()))))


def data_with_ids(name: str, options: Mapping[str, object], home: Path | None) -> str:
    """Return the name of a folder with the file of its class ids; match the classes if there is none.

    The file is `FOLDER-wnids.tsv` in the current folder, with a line per class. An existing file is not changed.
    """
    resolved = resolve_dataset(name, Path.cwd())
    parsed = Name.parse(resolved)
    if parsed.scheme != "folder" or "wnids" in parsed.options or options.get("ontology"):
        return name
    with at_home(home_folder(home)):
        dataset = load_dataset(resolved)
    if any(dataset.wnids):
        return name
    typed = Path(name.partition("?")[0].removeprefix("folder:"))  # the name of a link, not of its target
    path = Path.cwd() / f"{typed.name or Path(parsed.rest).name}-wnids.tsv"
    if path.exists():
        _print_known(path, list(dataset.class_names))
    else:
        _match_classes(path, resolved, list(dataset.class_names), str(options.get("seen", "imagenet-1k")), home)
    return str(Name.parse(resolved, {"wnids": path}))


def _print_known(path: Path, names: list[str]) -> None:
    """Print which classes have no id in an existing file."""
    try:
        known = read_table(path, names)
    except DataError as error:
        raise DataError(
            f"{error}. Move that file away to have the classes matched anew, or give ?wnids=FILE."
        ) from None
    left = [name for name in names if known.get(name, OPEN) == OPEN]
    missing = f"; without an id: {listed(left, _MOST_SHOWN)}" if left else ""
    say(f"The WordNet ids are those of {path.name}{missing}.", error=True)


def _match_classes(path: Path, data: str, names: list[str], seen: str, home: Path | None) -> None:
    """Match the classes to WordNet, write the file, and print a summary and some of the open classes."""
    wordnet = load_wordnet()
    _, trained = read_seen(seen, wordnet)
    bench = Workbench(home_folder(home), progress=ConsoleProgress(console(error=True)))
    mapping = map_classes(names, seen=trained, answers=answers_for(bench, data, seen), wordnet=wordnet)
    mapping.write(path)
    if not mapping.sure:
        raise DataError(
            f"no class of {data!r} has a synset that its name makes sure. {path.name} lists them all: write "
            "WordNet ids there and run again, or give an ontology of your own (--ontology)."
        )
    advice = "classes with ? stay out until you write an id, or - for none, and run again."
    say(f"{mapping.summary} {path.name} has them all; {advice if mapping.doubtful else 'edit it.'}", error=True)
    for row in mapping.doubtful[:_MOST_SHOWN]:
        senses = [f"{sense.wnid} {sense.lemmas[0]} ({sense.relation})" for sense in row.senses]
        say(
            f"  {row.match.name}: {mapping.reasons[row.match.name]}: {listed(senses, _MOST_SENSES) or 'no synset'}",
            error=True,
        )


def show_levels(results: Sequence[Result]) -> None:
    """Print levels with the most and the fewest images as tables and trends as text, by setting; then failures."""
    found = [result for result in results if result.ok]
    names = display_names(found)
    for group in settings(found):
        _show_setting(group, names)
    if failed := [result for result in results if not result.ok]:
        show_results(failed)


def _show_setting(group: Group, names: Mapping[str, str]) -> None:
    scores = level_scores(group.results)
    ranked = [s for s in scores if not s.level.startswith(CONTROL)]
    shots = order_shots(ranked)
    shown = list(dict.fromkeys(shots[:1] + shots[-1:]))
    for table in level_tables(group, [s for s in ranked if s.shots in shown], names, group.words):
        print_model(table)
    others = [images_text(each) for each in shots if each not in shown]
    others += ["random control levels"] if len(ranked) < len(scores) else []
    models = {model: names.get(model, model) for model in group.by_model()}
    sentences = trend_sentences(scores, concept_scores(group.results), models)
    if len(shots) > 1:
        sentences.append(shots_sentence(group.results, list(models)))
    if others:
        sentences.append(f"`unseen results --benchmark cog` also prints the tables with {', '.join(others)}.")
    for sentence in filter(None, sentences):
        say(sentence)


run = study_command(
    "cog",
    data=_DATA,
    models=DEFAULT_MODELS,
    defaults={"shots": [str(shots) for shots in (*PAPER_SHOTS[1:], ALL)], "levels": None},
    prepare=_prepare,
    run=partial(run_draft, show=show_levels),
)
finetune = study_command(
    "cog-finetune",
    data=_DATA,
    models=DEFAULT_MODELS[:1],
    defaults={"levels": None},
    prepare=_prepare_finetuning,
)


def chart(
    kind: Annotated[str, Argument(help=f"One of: {', '.join(FIGURES)}.")],
    output: Annotated[Path, Option("--output", help="File to write: .html, .svg, .png or .pdf.")],
    study: Annotated[str, Option("--study", help="Name of the study.")] = "cog",
    models: Annotated[
        list[str] | None, Option("--models", metavar="NAME ...", help="Models: ids, names or patterns.")
    ] = None,
    baseline: Annotated[str | None, Option(help="The model that others are compared with.")] = None,
    level: Annotated[
        list[str] | None,
        Option("--level", metavar="LEVEL ...", help="For few-shot charts: L1 L3 L5, or all; three by default."),
    ] = None,
    levels: Annotated[Path | None, Option(help="For ranking: a file written by `unseen cog levels`.")] = None,
    concept: Annotated[str | None, Option(help="For kin: a name or WordNet id, such as 'tiger cat'.")] = None,
    data: Annotated[
        str | None, Option("--data", metavar="DATA", help="For kin and ranking: a dataset with pictures.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        Option("--setting", metavar="NAME=VALUE", help="The setting, if a study has several."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Draw one figure of the paper from stored results, and describe what it shows."""
    bench = Workbench(home_folder(home))
    results: list[Result] = []
    if kind != "kin" and levels is None:
        with open_results(home) as database:
            results = database.latest(study=study, include_failed=False, benchmark=("cog", "cog-finetune"))
    request = Request(
        results,
        cards=model_cards_of(results),
        baseline=baseline,
        models=split_names(models),
        levels=split_names(level),
        setting=setting or (),
        picture=class_pictures(bench.dataset, size=104),
        file=levels,
        concept=concept,
        data=bench.dataset(resolve_dataset(data, Path.cwd())) if data else None,
    )
    drawn, words = draw(kind, request)
    save_chart(drawn, output)
    for line in words:
        say(line)
    say(f"Chart: {output}")


def noise(
    data: Annotated[str, Argument(metavar="DATA", help="A dataset whose classes have ids.")] = "packaged:emoji",
    data_option: Annotated[
        str | None, Option("--data", metavar="DATA", help="The dataset, like the argument DATA.")
    ] = None,
    models: ModelsOption = None,
    levels: Annotated[int, Option(min=1, help="Levels of unseen concepts.")] = 5,
    output: Annotated[
        Path | None,
        Option("--output", metavar="FILE", help="Fig. A: the images that classifiers are surest of (.html)."),
    ] = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Print how often classifiers are sure of images of concepts that they do not know (supplement A.3)."""
    bench = Workbench(home_folder(home), progress=ConsoleProgress(console(error=True)))
    name = resolve_dataset(data_option or data, Path.cwd())
    shares: dict[str, dict[str, float]] = {}
    for each in split_names(models) or DEFAULT_MODELS[:1]:
        model = resolve_model(each, Path.cwd())
        found, drawn = label_noise(bench, model, name, DomainRecipe(levels=levels))
        shares[model] = {pair: one.share for pair, one in found.items()}
        if output is not None:
            save_chart(drawn, output)  # of several models, that of the last one
    if as_json:
        print_json([{"model": model, "overconfident": own} for model, own in shares.items()])
        return
    for model, own in shares.items():
        text = ", ".join(f"{pair} {share:.1%}" for pair, share in own.items())
        say(f"{model}: classifier on images of other concepts, share of probabilities above 0.99: {text}.")
    say("With few classes this is no evidence of a wrong label: a softmax has to choose one of its own concepts.")
    if output is not None:
        say(f"Chart: {output}")
