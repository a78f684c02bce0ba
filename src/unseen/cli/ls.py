"""`unseen ls`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from unseen.cli.options import JsonOption

if TYPE_CHECKING:
    from unseen.core.records import DatasetCard, MethodCard, ModelCard

Kind = Literal["models", "datasets", "benchmarks", "studies", "methods", "scores"]


def ls(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    source: Annotated[
        str | None, typer.Option("--source", help="Of models: everything one source has, such as timm.")
    ] = None,
    paper: Annotated[
        str | None, typer.Option("--paper", help="Only what a paper lists: cog, gbu, vtab, neucrab.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only one group.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List models, datasets, benchmarks, studies that are shipped, methods or scores."""
    from unseen.cli.tables import print_json

    cards = [
        card.to_dict()
        for card in _LISTS[kind](source)
        if (paper is None or card.paper == paper) and (group is None or card.group == group)
    ]
    if as_json:
        print_json(cards)
    else:
        _print(kind, cards)


def _models(source: str | None) -> Iterable[ModelCard]:
    from unseen.backbones import model_cards

    return model_cards(source)


def _datasets(_source: str | None) -> Iterable[DatasetCard]:
    from unseen.data import dataset_cards

    return dataset_cards()


def _benchmarks(_source: str | None) -> Iterable[MethodCard]:
    from unseen.benchmarks import benchmark_cards

    return benchmark_cards()


def _studies(_source: str | None) -> Iterable[MethodCard]:
    from unseen.study import study_cards

    return study_cards()


def _methods(_source: str | None) -> Iterable[MethodCard]:
    from unseen.probes.cards import PROBE_CARDS
    from unseen.zeroshot.catalogue import method_cards

    return [*PROBE_CARDS, *method_cards()]


def _scores(_source: str | None) -> Iterable[MethodCard]:
    from unseen.ranking.cards import score_cards

    return score_cards()


_ONE = {"studies": "study"}
_LISTS: dict[str, Callable[[str | None], Iterable[Any]]] = {
    "models": _models,
    "datasets": _datasets,
    "benchmarks": _benchmarks,
    "studies": _studies,
    "methods": _methods,
    "scores": _scores,
}

#: Which fields of a card are shown, in this order, where any card has them.
_COLUMNS = (
    "id",
    "name",
    "group",
    "paper",
    "architecture",
    "classes",
    "images",
    "splits",
    "label_sets",
    "feature_dim",
    "notes",
)


def _print(kind: str, cards: list[dict[str, Any]]) -> None:
    from unseen.cli.tables import console, count, print_table

    if not cards:
        console().print(f"0 {kind}")
        return
    columns = [c for c in _COLUMNS if any(card.get(c) not in (None, "", ()) for card in cards)]
    rows = [[_text(card.get(column)) for column in columns] for card in cards]
    title = count(len(cards), _ONE.get(kind, kind[:-1]), kind)
    print_table(columns, rows, title=title, keep=("name", "group", "notes"))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
