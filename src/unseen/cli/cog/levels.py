"""`unseen cog levels`: the generalization levels of ImageNet-CoG, or of an ontology of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.tables import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unseen.concepts import Eligibility, InformationContent, Levels, Taxonomy
    from unseen.concepts.nearest import SimilarityFunction


def levels(
    counts: Annotated[Path | None, typer.Option(help="CSV: concept and number of images per line.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder with a sub-folder or a tar file of images per concept.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the levels to this JSON file.")] = None,
    seen: Annotated[str, typer.Option(help="imagenet-1k, or a file with one concept per line.")] = "imagenet-1k",
    number: Annotated[int, typer.Option("--levels", metavar="N", help="How many levels.")] = 5,
    size: Annotated[int, typer.Option(help="Concepts per level.")] = 1000,
    measure: Annotated[str, typer.Option(help="lin, jiang-conrath, resnik, wu-palmer, path, ... or text.")] = "lin",
    min_images: Annotated[
        int | None, typer.Option(metavar="N", help="Drop concepts with fewer images; 782 in WordNet, else none.")
    ] = None,
    drop_subtree: Annotated[
        list[str] | None, typer.Option(help="Drop a concept and all below it (person in WordNet). May be repeated.")
    ] = None,
    discard: Annotated[
        str | None, typer.Option(help="File of concepts to drop, or 'none'; Table A of the paper in WordNet.")
    ] = None,
    ontology: Annotated[Path | None, typer.Option(help="Your own is-a edges (.csv, .tsv, .json), not WordNet.")] = None,
    root: Annotated[str | None, typer.Option(help="Hang parentless concepts of --ontology from this one.")] = None,
    rerank: Annotated[str | None, typer.Option(help="Rank the chosen concepts anew by this measure.")] = None,
    random: Annotated[int, typer.Option(help="Make so many random control levels instead (15 in the paper).")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of --random.")] = 0,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors for 'text': a word2vec, GloVe or Wikipedia2Vec file.")
    ] = None,
    published: Annotated[
        Path | None, typer.Option(help="The authors' cog_levels_mapping_file.pkl, to compare.")
    ] = None,
    split: Annotated[Path | None, typer.Option(help="The authors' cog_concepts_split_file.pkl, to check.")] = None,
) -> None:
    """Build levels of unseen concepts, ever further from the seen ones."""
    from unseen.concepts import build_levels, corpus_information, random_levels, rerank_levels

    taxonomy = _taxonomy(ontology, root)
    images_of = _counts(counts, images, taxonomy, needed=ontology is None or bool(min_images))
    seen_name, seen_ids = _seen(seen, taxonomy)
    eligible = _eligible(taxonomy, images_of, seen_ids, min_images, drop_subtree, discard)
    # Of the pinned corpus, whatever lies on the disk: the release of 2021 gives the levels of 2011 (supplement E).
    ic = corpus_information(taxonomy)
    _print_funnel(eligible, len(images_of))
    if random:
        made = random_levels(eligible.concepts, draws=random, size=size, seed=seed)
    else:
        similar = _measure(measure, taxonomy, vectors)
        made = build_levels(taxonomy, eligible.concepts, seen_ids, levels=number, size=size, measure=similar, ic=ic)
        if rerank is not None:
            made = rerank_levels(made, taxonomy, seen_ids, _measure(rerank, taxonomy, vectors), ic=ic)
    made.details.update(_details(eligible, seen_name, seen_ids))
    _print_levels(made, taxonomy, ic)
    if published is not None:
        _print_comparison(made, published)
    if split is not None:
        _print_split(made, split)
    if out is not None:
        made.save(out)
        say(f"Written to {out}.")


def _taxonomy(ontology: Path | None, root: str | None) -> Taxonomy:
    from unseen.concepts import load_wordnet, read_taxonomy
    from unseen.core.errors import UsageError

    if ontology is not None:
        return read_taxonomy(ontology, root=root)
    if root is not None:
        raise UsageError("--root goes with --ontology; WordNet has a root of its own.")
    return load_wordnet()


def _counts(counts: Path | None, images: Path | None, taxonomy: Taxonomy, *, needed: bool) -> dict[str, int]:
    """Images per concept; of every concept of an ontology where nobody asks how many there are."""
    from unseen.benchmarks.cog.check import count_concepts
    from unseen.concepts.imagenet import check_wnids, read_counts
    from unseen.core.errors import UsageError

    if counts is not None and images is None:
        found = read_counts(counts)
    elif images is not None and counts is None:
        found = count_concepts(images)
    elif counts is None and images is None and not needed:
        return dict.fromkeys(taxonomy.ids, 0)
    else:
        raise UsageError("give either --counts FILE or --images FOLDER: how many images does each concept have?")
    check_wnids(found, taxonomy)
    return found


def _seen(seen: str, taxonomy: Taxonomy) -> tuple[str, list[str]]:
    from unseen.concepts import WordNet, read_class_list, read_seen

    if isinstance(taxonomy, WordNet):
        return read_seen(seen, taxonomy)
    names = read_class_list(seen)
    taxonomy.index(names)
    return Path(seen).name, names


def _eligible(
    taxonomy: Taxonomy,
    counts: Mapping[str, int],
    seen: list[str],
    min_images: int | None,
    subtrees: list[str] | None,
    discard: str | None,
) -> Eligibility:
    from unseen.concepts import filters_for, read_class_list, run_funnel

    listed = None if discard is None else () if discard == "none" else tuple(read_class_list(discard))
    concepts = list(counts)
    filters = filters_for(
        taxonomy, concepts, seen, counts=counts, min_images=min_images, subtrees=subtrees, discard=listed
    )
    return run_funnel(taxonomy, concepts, filters)


def _measure(name: str, taxonomy: Taxonomy, vectors: Path | None) -> str | SimilarityFunction:
    from unseen.concepts import text_measure

    return text_measure(taxonomy, vectors) if name == "text" and vectors is not None else name


def _details(eligible: Eligibility, seen_name: str, seen: list[str]) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "seen": {"name": seen_name, "concepts": len(seen)},
        "funnel": {"started": eligible.started, "steps": [asdict(step) for step in eligible.steps]},
    }


def _print_funnel(eligible: Eligibility, started: int) -> None:
    from unseen.cli.tables import print_table

    rows = [("all concepts", "", f"{started:,}")]
    rows += [(f"without: {step.name}", f"-{step.dropped:,}", f"{step.left:,}") for step in eligible.steps]
    print_table(("Eligible concepts", "dropped", "left"), rows, numeric=("dropped", "left"))


def _print_levels(levels: Levels, taxonomy: Taxonomy, ic: InformationContent) -> None:
    from unseen.cli.tables import print_table

    def label(concept: str | None) -> str:
        name = getattr(taxonomy, "label", str)
        return name(concept) if concept is not None else ""

    rows = []
    for level in levels.levels:
        known = [c.similarity for c in level.concepts if c.similarity is not None]
        first, last = level.concepts[0], level.concepts[-1]
        # Of a random draw, which has no order, no end is nearer than the other.
        example, end = (f"{label(c.id)} ({label(c.nearest)})" if c.nearest else "" for c in (first, last))
        figures = (f"{level.mean_similarity:.4f}", f"{max(known):.4f}", f"{min(known):.4f}") if known else ("", "", "")
        rows.append((level.name, f"{len(level.concepts):,}", *figures, example, end))
    left = sum(len(gap) for gap in levels.gaps)
    gaps = f"{left:,} concepts left in the gaps ({', '.join(str(len(gap)) for gap in levels.gaps)})." if left else ""
    corpus = f"Measure: {levels.measure}; corpus of the information content: {ic.total:,.0f} concepts. {gaps}"
    columns = ("Level", "concepts", "mean", "first", "last", "nearest to seen (to which)", "farthest from seen")
    print_table(columns, rows, caption=corpus.strip(), numeric=("concepts", "mean", "first", "last"))


def _print_comparison(levels: Levels, path: Path) -> None:
    """How many concepts the levels share with the authors' own."""
    from unseen.cli.tables import print_table
    from unseen.concepts import read_published_levels

    theirs = read_published_levels(path)
    rows = []
    for level in theirs.levels:
        shares = [str(len(set(level.ids).intersection(ours.ids))) for ours in levels.levels]
        rows.append((level.name, f"{len(level.ids):,}", *shares))
    columns = ("Published", "concepts", *(f"in {level.name}" for level in levels.levels))
    print_table(columns, rows, numeric=columns[1:])


def _print_split(levels: Levels, path: Path) -> None:
    """How many images the authors' split file has for the levels."""
    from unseen.cli.tables import print_table
    from unseen.concepts import read_published_split

    files = read_published_split(path)
    rows = []
    for level in levels.levels:
        held = [files[concept] for concept in level.ids if concept in files]
        train, test = sum(len(f.train) for f in held), sum(len(f.test) for f in held)
        rows.append((level.name, f"{len(held):,} of {len(level.ids):,}", f"{train:,}", f"{test:,}"))
    columns = ("Split file", "concepts", "train images", "test images")
    print_table(columns, rows, numeric=columns[1:])
