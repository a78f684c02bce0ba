"""Results as a paper wants them: tables in LaTeX or Markdown, what was done in a paragraph, what to cite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.core.records import DatasetCard, ModelCard, Result
    from unseen.results.grid import Grid

#: What benchmarks are called in a caption.
_BENCHMARKS = {
    "probe": "Linear probe", "cog": "ImageNet-CoG", "cog-finetune": "Fine-tuning on CoG levels",
    "zsl": "Zero-shot learning", "clip": "Prompts", "vtab": "VTAB", "rank": "Ranking scores",
}  # fmt: skip
_ON_DISK = ("folder:", "csv:", "parquet:", "zip:", "wds:")

_HEAD = r"% Made by `unseen results --latex`. In the preamble: \usepackage{booktabs}"


def write_papers(
    found: Sequence[Result], metrics: Sequence[str], *, latex: str = "", markdown: str = "", bibtex: str = ""
) -> None:
    """Write what was asked for, each to its file or, for "-", to standard output.

    Raises:
        UsageError: there is no result to write.
    """
    from unseen.benchmarks import bibliography
    from unseen.cli.results import say_written
    from unseen.core.errors import UsageError
    from unseen.results.export import write_lines

    cards, datasets = model_cards_of(found), dataset_cards_of(found)
    if not found:
        raise UsageError("there are no results to write: none has these names, or all of them failed.")
    for target, text in ((latex, latex_text), (markdown, markdown_text)):
        if target:
            write_lines(target, [text(found, metrics, cards, datasets)])
            say_written(target)
    if bibtex:
        write_lines(bibtex, [bibliography.bibtex(found, cards, datasets)])
        say_written(bibtex)


def latex_text(
    found: Sequence[Result],
    metrics: Sequence[str],
    cards: dict[str, ModelCard],
    datasets: dict[str, DatasetCard],
) -> str:
    """A file to \\input: a table per benchmark (or several), then a paragraph on each benchmark."""
    from unseen.benchmarks.method import method_paragraphs
    from unseen.results import typeset

    names = display_names(found, cards, datasets)
    tables = typeset.tables_text(
        _grids(found, metrics), lambda table, number: typeset.latex_table(table, f"tab:unseen-{number}"), names
    )
    said = [
        typeset.latex_text(text) + "".join(rf" \cite{{{key}}}" for key in ("unseen", *papers))
        for text, papers in method_paragraphs(found, names)
    ]
    return "\n".join([_HEAD, *tables, *(rf"\paragraph{{Protocol.}} {text}" + "\n" for text in said)])


def markdown_text(
    found: Sequence[Result],
    metrics: Sequence[str],
    cards: dict[str, ModelCard],
    datasets: dict[str, DatasetCard],
) -> str:
    """The same as Markdown."""
    from unseen.benchmarks.method import method_paragraphs
    from unseen.results import typeset

    names = display_names(found, cards, datasets)
    tables = typeset.tables_text(_grids(found, metrics), lambda table, _: typeset.markdown_table(table), names)
    return "\n".join([*tables, *(f"{typeset.markdown_words(text)}\n" for text, _ in method_paragraphs(found, names))])


def _grids(found: Sequence[Result], metrics: Sequence[str]) -> list[Grid]:
    from unseen.benchmarks.benchmark import load_styles
    from unseen.core.errors import UsageError
    from unseen.results.grid import grids

    load_styles({result.cell.benchmark for result in found})
    if made := grids(found, metrics):
        return made
    raise UsageError(f"no result has {' or '.join(metrics)}.")


def display_names(
    found: Sequence[Result], cards: dict[str, ModelCard], datasets: dict[str, DatasetCard]
) -> dict[str, str]:
    from unseen.reports.wording import short_names

    models = dict.fromkeys(result.cell.model for result in found)
    data = short_names(dict.fromkeys(result.cell.dataset for result in found), datasets)
    folders = {name: _last_part(name) for name in data if name.startswith(_ON_DISK)}
    once = {name: part for name, part in folders.items() if list(folders.values()).count(part) == 1}
    return {**_BENCHMARKS, **short_names(models, cards), **data, **once}


def _last_part(dataset: str) -> str:
    """The name of a folder or file, without the way to it, which is nobody else's business."""
    return PurePath(dataset.partition(":")[2].partition("?")[0]).name


def model_cards_of(found: Collection[Result]) -> dict[str, ModelCard]:
    """Cards of models as their sources list them, without loading any; those that are not listed have none."""
    from unseen.cli.cog.figures import known_cards

    return known_cards({result.cell.model for result in found})


def dataset_cards_of(found: Collection[Result]) -> dict[str, DatasetCard]:
    """Cards of datasets that are listed by name; one with options, such as `?labels=coarse`, is named with them."""
    from dataclasses import replace

    from unseen.data import dataset_cards

    listed = {card.id: card for card in dataset_cards()}
    cards = {}
    for name in {result.cell.dataset for result in found}:
        plain, _, options = name.partition("?")
        if plain in listed:
            card = listed[plain]
            said = f"{card.name or plain}, {options.replace('&', ', ').replace('=', ' ')}" if options else card.name
            cards[name] = replace(card, id=name, name=said)
    return cards
