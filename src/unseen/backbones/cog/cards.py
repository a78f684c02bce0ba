"""The cards of the 31 models, read from `cards.toml`. Needs no torch: listing them costs nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from unseen.core.records import ModelCard, Preprocessing


@dataclass(frozen=True)
class CogModel:
    """A model's card and how its authors publish its weights.

    Attributes:
        id: without the scheme, such as "s-dino".
        layer: where its features are taken, in words.
        file: the name of the published file.
        urls: where it can be had; the first is `file` itself, others stand beside it. Empty: only by hand, at `page`.
        sha256: the beginning of the file's checksum, or "" where its authors give none.
        format: which reader the file needs.
        containers: dotted ways to the state dict, the first that is there.
        prefixes: what stands before the names in it, the first that fits.
        ignored: regular expressions of names that the network does not need.
        head: whether the file has a class head.
        layout: how published names become ours.
    """

    id: str
    card: ModelCard
    layer: str
    file: str
    urls: tuple[str, ...]
    page: str
    sha256: str
    format: str
    containers: tuple[str, ...]
    prefixes: tuple[str, ...]
    ignored: tuple[str, ...]
    head: bool
    layout: str


@cache
def cog_models() -> Mapping[str, CogModel]:
    """Every model by its id, in the order of the paper."""
    table = tomllib.loads(files(__package__).joinpath("cards.toml").read_text(encoding="utf-8"))
    return {entry["id"]: _model({**table["defaults"], **entry}) for entry in table["models"]}


def _model(entry: Mapping[str, Any]) -> CogModel:
    card = ModelCard(
        id=f"cog:{entry['id']}",
        name=entry["name"],
        group=entry["group"],
        paper="cog",
        architecture=entry["architecture"],
        parameters=entry["parameters"],
        feature_dim=entry["feature_dim"],
        preprocessing=Preprocessing(
            size=entry["size"],
            resize=entry["size"],
            interpolation="bicubic",
            mean=tuple(entry["mean"]),
            std=tuple(entry["std"]),
        ),
        source=entry["urls"][0] if entry["urls"] else entry["page"],
        license=entry["license"],
        citation=entry["citation"],
        notes=_notes(entry),
    )
    return CogModel(
        id=entry["id"],
        card=card,
        layer=entry["layer"],
        file=entry["file"],
        urls=tuple(entry["urls"]),
        page=entry["page"],
        sha256=entry["sha256"],
        format=entry["format"],
        containers=tuple(entry["containers"]),
        prefixes=tuple(entry["prefixes"]),
        ignored=tuple(entry["ignored"]),
        head=entry["head"],
        layout=entry["layout"],
    )


def _notes(entry: Mapping[str, Any]) -> str:
    checksum = "" if entry["sha256"] else "no published checksum"
    return "; ".join(part for part in (entry["notes"], checksum) if part)
