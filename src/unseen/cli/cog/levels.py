"""`unseen cog levels` and `unseen cog check`: levels of unseen concepts, the images of ImageNet-CoG, and its cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

from unseen.backbones.load import resolve_model
from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.check import (
    FULL_COG,
    PASSES,
    V100,
    cost_lines,
    count_concepts,
    plan_cost,
    planned_card,
)
from unseen.benchmarks.cog.domains import read_measure, read_seen_concepts
from unseen.cli.application import DEFAULT_MODELS, HomeOption, JsonOption, split_names
from unseen.cli.cog.run import imagenet_data
from unseen.cli.tables import print_json, print_table, say
from unseen.concepts import (
    Eligibility,
    InformationContent,
    Levels,
    Taxonomy,
    WordNet,
    build_levels,
    corpus_information,
    filters_for,
    load_wordnet,
    read_class_list,
    read_counts,
    read_taxonomy,
    run_funnel,
)
from unseen.core.errors import UsageError
from unseen.core.files import at_home
from unseen.core.files import home as home_folder
from unseen.core.identity import Values
from unseen.data.load import load_dataset


def levels(
    counts: Annotated[Path | None, Option(help="CSV: concept and number of images per line.")] = None,
    images: Annotated[Path | None, Option(help="Folder with a sub-folder or a tar file of images per concept.")] = None,
    output: Annotated[Path | None, Option(help="Write the levels to this JSON file.")] = None,
    seen: Annotated[str, Option(help="imagenet-1k, or a file with one concept per line.")] = "imagenet-1k",
    number: Annotated[int, Option("--levels", metavar="N", help="Number of levels.")] = 5,
    size: Annotated[int, Option(help="Concepts per level.")] = 1000,
    measure: Annotated[str, Option(help="lin, jiang-conrath, resnik, wu-palmer or text.")] = "lin",
    min_images: Annotated[
        int | None, Option(metavar="N", help="Drop concepts with fewer images; 782 in WordNet, else none.")
    ] = None,
    drop_subtree: Annotated[
        list[str] | None, Option(help="Drop a concept and all below it (person in WordNet). May be repeated.")
    ] = None,
    discard: Annotated[
        str | None, Option(help="File of concepts to drop, or 'none'; Table A of the paper in WordNet.")
    ] = None,
    ontology: Annotated[Path | None, Option(help="Your own is-a edges (.csv, .tsv), not WordNet.")] = None,
    root: Annotated[str | None, Option(help="Common root of the concepts of --ontology without parent.")] = None,
    vectors: Annotated[
        Path | None, Option(help="Word vectors for 'text': a word2vec, GloVe or Wikipedia2Vec file.")
    ] = None,
) -> None:
    """Build levels of unseen concepts, increasingly distant from the seen ones."""
    if root is not None and ontology is None:
        raise UsageError("--root goes with --ontology; WordNet has a root of its own.")
    taxonomy = load_wordnet() if ontology is None else read_taxonomy(ontology, root=root)
    images_of = _counts(counts, images, taxonomy, needed=ontology is None or bool(min_images))
    seen_name, seen_ids, _ = read_seen_concepts(seen, taxonomy)
    dropped = None if discard is None else () if discard == "none" else tuple(read_class_list(discard))
    filters = filters_for(
        taxonomy, list(images_of), seen_ids, counts=images_of, min_images=min_images, subtrees=drop_subtree,
        discard=dropped,
    )  # fmt: skip
    eligible = run_funnel(taxonomy, list(images_of), filters)
    # The pinned corpus: the release of 2021 gives the levels of 2011 (supplement E).
    ic = corpus_information(taxonomy)
    _print_funnel(eligible, len(images_of))
    similar = read_measure(measure, taxonomy, vectors)
    made = build_levels(taxonomy, eligible.concepts, seen_ids, levels=number, size=size, measure=similar, ic=ic)
    made.details.update(
        seen={"name": seen_name, "concepts": len(seen_ids)},
        funnel={"started": eligible.started, "steps": [asdict(step) for step in eligible.steps]},
    )
    _print_levels(made, taxonomy, ic)
    if output is not None:
        made.save(output)
        say(f"Written to {output}.")


def _counts(counts: Path | None, images: Path | None, taxonomy: Taxonomy, *, needed: bool) -> dict[str, int]:
    """Return images per concept; 0 for every concept of an ontology if counts are not needed."""
    if counts is None and images is None and not needed:
        return dict.fromkeys(taxonomy.ids, 0)
    if (counts is None) == (images is None):
        raise UsageError("give either --counts FILE or --images FOLDER: how many images does each concept have?")
    found = read_counts(counts) if counts is not None else count_concepts(images or Path())
    taxonomy.index(found)  # raises if a concept is unknown
    return found


def _print_funnel(eligible: Eligibility, started: int) -> None:
    rows = [("all concepts", "", f"{started:,}")]
    rows += [(f"without: {step.name}", f"-{step.dropped:,}", f"{step.left:,}") for step in eligible.steps]
    print_table(("Eligible concepts", "dropped", "left"), rows, numeric=("dropped", "left"))


def _print_levels(levels: Levels, taxonomy: Taxonomy, ic: InformationContent) -> None:
    label = taxonomy.label if isinstance(taxonomy, WordNet) else str
    rows = []
    for level in levels.levels:
        known = [concept.similarity or 0.0 for concept in level.concepts]
        figures = (f"{level.mean_similarity:.4f}", f"{max(known):.4f}", f"{min(known):.4f}")
        ends = [f"{label(c.id)} ({label(c.nearest or '')})" for c in (level.concepts[0], level.concepts[-1])]
        rows.append((level.name, f"{len(level.concepts):,}", *figures, *ends))
    left = sum(len(gap) for gap in levels.gaps)
    gaps = f"{left:,} concepts left in the gaps ({', '.join(str(len(gap)) for gap in levels.gaps)})." if left else ""
    corpus = f"Measure: {levels.measure}; corpus of the information content: {ic.total:,.0f} concepts. {gaps}"
    columns = ("Level", "concepts", "mean", "first", "last", "nearest to seen (to which)", "farthest from seen")
    print_table(columns, rows, caption=corpus.strip(), numeric=("concepts", "mean", "first", "last"))


def check(
    data: Annotated[str, Option("--data", metavar="DATA", help="The dataset; imagenet?root=FOLDER names a root.")] = (
        "imagenet"
    ),
    plan: Annotated[bool, Option("--plan", help="Print the cost of a run: disk, memory, operations.")] = False,
    models: Annotated[list[str] | None, Option("--models", help="With --plan: the models of the run.")] = None,
    solver: Annotated[str, Option(help=f"With --plan: {' or '.join(PASSES)}.")] = "logistic",
    gpu_gflops: Annotated[
        float, Option(metavar="X", min=0.001, help="With --plan: peak float32 GFLOP/s of a GPU; a V100's.")
    ] = V100,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """List the images of ImageNet-CoG, without reading them; with --plan, print the cost of a run."""
    if plan:
        bench = Workbench(home_folder(home))
        names = [resolve_model(name, Path.cwd()) for name in split_names(models) or DEFAULT_MODELS[:1]]
        costs = plan_cost(FULL_COG, [planned_card(bench, name) for name in names], solver=solver)
        found: Values = {"plan": {"models": [asdict(cost) for cost in costs], "gflops": gpu_gflops}}
        lines = cost_lines(FULL_COG, costs, gpu_gflops)
    else:
        with at_home(home_folder(home)):
            dataset = load_dataset(imagenet_data(data, {}, home))
        images = {name: len(split) for name, split in dataset.splits.items()}
        found = {"dataset": dataset.id, "concepts": len(dataset.class_names), "images": images}
        counts = ", ".join(f"{count:,} {name} images" for name, count in images.items())
        lines = [f"{dataset.id}: {len(dataset.class_names):,} concepts, {counts}."]
    if as_json:
        print_json(found)
        return
    for line in lines:
        say(line)
