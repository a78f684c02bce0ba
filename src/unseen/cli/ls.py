"""`unseen ls`: list models, datasets, benchmarks, studies, methods and scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from typer import Argument, Option

from unseen.cli.application import JsonOption
from unseen.cli.tables import count, print_json, print_table, say
from unseen.core.errors import UsageError
from unseen.core.registry import load_object

Kind = Literal["models", "datasets", "benchmarks", "studies", "methods", "scores"]


def ls(
    kind: Annotated[Kind, Argument(help="What to list.")],
    source: Annotated[str | None, Option("--source", help="All models of one source, such as timm.")] = None,
    paper: Annotated[str | None, Option("--paper", help="Only entries of a paper: cog, gbu, vtab, neucrab.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List models, datasets, benchmarks, studies, methods or scores."""
    cards = [card.to_dict() for card in _cards(kind, source) if paper is None or card.paper == paper]
    if as_json:
        print_json(cards)
    else:
        _print(kind, cards)


_ONE = {"studies": "study"}

#: Functions that return the cards, or tuples of cards.
_LISTS: dict[str, tuple[str, ...]] = {
    "models": ("unseen.backbones:model_cards",),
    "datasets": ("unseen.data:dataset_cards",),
    "benchmarks": ("unseen.benchmarks:benchmark_cards",),
    "studies": ("unseen.run.study:study_cards",),
    "methods": (
        "unseen.probes.solvers:PROBE_CARDS",
        "unseen.finetuning:adaptation_cards",
        "unseen.zeroshot.catalogue:method_cards",
    ),
    "scores": ("unseen.ranking.cards:score_cards",),
}


def _cards(kind: str, source: str | None) -> Iterator[Any]:
    if source is not None and kind != "models":
        raise UsageError(f"--source is an option of `unseen ls models`; {kind} have no sources.")
    for place in _LISTS[kind]:
        found = load_object(place)
        yield from (found(source) if kind == "models" else found() if callable(found) else found)


#: Fields of cards that are shown, in this order, if any card has them.
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


def _print(kind: str, cards: list[dict[str, object]]) -> None:
    if not cards:
        say(f"0 {kind}")
        return
    columns = [c for c in _COLUMNS if any(card.get(c) not in (None, "", ()) for card in cards)]
    rows = [[_text(card.get(column)) for column in columns] for card in cards]
    caption = "--source timm lists the names of one source; timm:*dino* stands for several."
    title = count(len(cards), _ONE.get(kind, kind[:-1]), kind)
    print_table(
        columns, rows, title=title, caption=caption if kind == "models" else "", keep=("name", "group", "notes")
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
