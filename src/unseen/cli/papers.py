"""Results as a paper wants them: tables in LaTeX or Markdown, what was done in a paragraph, what to cite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.core.records import DatasetCard, ModelCard, Result
    from unseen.results.table import Table

_ON_DISK = ("folder:", "csv:", "parquet:", "zip:", "wds:")

_HEAD = r"% Made by `unseen results --latex`. In the preamble: \usepackage{booktabs}"


def write_papers(
    found: Sequence[Result], metrics: Sequence[str], *, latex: str = "", markdown: str = "", bibtex: str = ""
) -> None:
    """Write what was asked for, each to its file or, for "-", to standard output.

    Raises:
        UsageError: there is no result to write.
    """
    from unseen.benchmarks import citations
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
        write_lines(bibtex, [citations.bibtex(found, cards, datasets)])
        say_written(bibtex)


def write_tables(found: Sequence[Result], metrics: Sequence[str], *, as_json: bool, csv: str) -> None:
    """Write the tables of the terminal in full precision, as JSON to standard output and as CSV to a file."""
    from unseen.cli.results import say_written
    from unseen.cli.tables import print_json
    from unseen.results.export import write_lines
    from unseen.results.render import csv_table

    names = display_names(found, model_cards_of(found), dataset_cards_of(found))
    tables = _tables(found, metrics, names)
    if as_json:
        print_json([table.to_dict() for table in tables])
    if csv:
        write_lines(csv, ["\n".join(csv_table(table) for table in tables)])
        say_written(csv)


def latex_text(
    found: Sequence[Result],
    metrics: Sequence[str],
    cards: dict[str, ModelCard],
    datasets: dict[str, DatasetCard],
) -> str:
    """A file to \\input: a table per benchmark (or several), then a paragraph on each benchmark."""
    from unseen.benchmarks.citations import citation_keys, method_paragraphs
    from unseen.results import render

    names = display_names(found, cards, datasets)
    tables = [
        render.latex_table(table, f"tab:unseen-{number}")
        for number, table in enumerate(_tables(found, metrics, names), 1)
    ]
    keys = citation_keys(found, cards, datasets)
    said = [
        render.latex_text(text) + "".join(rf" \cite{{{keys[each]}}}" for each in ("unseen", *citations))
        for text, citations in method_paragraphs(found, names)
    ]
    return "\n".join([_HEAD, *tables, *(rf"\paragraph{{Protocol.}} {text}" + "\n" for text in said)])


def markdown_text(
    found: Sequence[Result],
    metrics: Sequence[str],
    cards: dict[str, ModelCard],
    datasets: dict[str, DatasetCard],
) -> str:
    """The same as Markdown."""
    from unseen.benchmarks.citations import method_paragraphs
    from unseen.results import render

    names = display_names(found, cards, datasets)
    tables = [render.markdown_table(table) for table in _tables(found, metrics, names)]
    return "\n".join([*tables, *(f"{render.markdown_words(text)}\n" for text, _ in method_paragraphs(found, names))])


def _tables(found: Sequence[Result], metrics: Sequence[str], names: Mapping[str, str]) -> list[Table]:
    from unseen.core.errors import UsageError
    from unseen.results.table import result_tables

    if made := result_tables(found, names, metrics):
        return made
    raise UsageError(f"no result has {' or '.join(metrics)}.")


def display_names(
    found: Sequence[Result], cards: dict[str, ModelCard], datasets: dict[str, DatasetCard]
) -> dict[str, str]:
    from unseen.reports.wording import short_names
    from unseen.results.info import info_of

    benchmarks = {name: info_of(name).title for name in {result.cell.benchmark for result in found}}
    models = dict.fromkeys(result.cell.model for result in found)
    data = short_names(dict.fromkeys(result.cell.dataset for result in found), datasets)
    folders = {name: _last_part(name) for name in data if name.startswith(_ON_DISK)}
    once = {name: part for name, part in folders.items() if list(folders.values()).count(part) == 1}
    return {**benchmarks, **short_names(models, cards), **data, **once}


def _last_part(dataset: str) -> str:
    """Return the name of a folder or file without its directory."""
    return PurePath(dataset.partition(":")[2].partition("?")[0]).name


def model_cards_of(found: Collection[Result]) -> dict[str, ModelCard]:
    """Return the cards of the models of some results: see `known_cards`."""
    return known_cards({result.cell.model for result in found})


def known_cards(models: Collection[str]) -> dict[str, ModelCard]:
    """Return the cards of models that their sources list, without loading a model."""
    from unseen.backbones.load import BACKBONES

    found: dict[str, ModelCard] = {}
    for scheme in {model.partition(":")[0] for model in models}:
        source = BACKBONES.get(scheme) if scheme in BACKBONES else None
        if source is not None and source.listed:
            found |= {card.id: card for card in source.cards() if card.id in models}
    return found


def dataset_cards_of(found: Collection[Result]) -> dict[str, DatasetCard]:
    """Return the cards of datasets that are listed by name, with their options, such as `?labels=coarse`, in the name.

    The folder of the data (`root`) is no part of a name, except its last part if datasets differ in it.
    """
    from dataclasses import replace

    from unseen.core.names import Name
    from unseen.data import dataset_cards

    listed = {card.id: card for card in dataset_cards()}
    cards = {}
    datasets = {result.cell.dataset for result in found}
    parsed = {each: Name.parse(each).options for each in datasets if each.partition("?")[0] in listed}
    roots = {options["root"] for options in parsed.values() if "root" in options}
    for dataset, options in parsed.items():
        card = listed[dataset.partition("?")[0]]
        shown = {**options, "root": PurePath(options["root"]).name} if "root" in options else options
        said = [f"{key} {value}" for key, value in shown.items() if key != "root" or len(roots) > 1]
        cards[dataset] = replace(card, id=dataset, name=", ".join([card.name or card.id, *said]))
    return cards
