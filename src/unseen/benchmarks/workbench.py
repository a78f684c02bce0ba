"""What a benchmark works with: datasets by name, features by name, and the cards of models.

A workbench belongs to one process. It loads a dataset or a model when it is first needed and keeps the last few, so
that cells which follow one another do not load them again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from unseen.backbones import backbone_revision, load_backbone
from unseen.core.records import ModelCard, Preprocessing, digest
from unseen.data import Dataset, load_dataset
from unseen.features import Extraction, FeatureStore, NoProgress, Progress, StoredFeatures, extract

if TYPE_CHECKING:
    from unseen.backbones import Backbone


class Workbench:
    """Datasets, features and cards, over one home folder.

    Args:
        home: where features, graphs and cards are kept.
        how: settings of the extraction; graphs go under `home` unless it says otherwise.
        progress: told how extractions go.
    """

    def __init__(self, home: Path, *, how: Extraction | None = None, progress: Progress | None = None) -> None:
        from dataclasses import replace

        how = how or Extraction()
        self.home = home
        self.how = how if how.graphs else replace(how, graphs=home / "graphs")
        self.progress = progress or NoProgress()
        self.store = FeatureStore(home / "features")
        self._dataset = lru_cache(maxsize=8)(load_dataset)
        self._backbone = lru_cache(maxsize=1)(load_backbone)

    def dataset(self, name: str) -> Dataset:
        """The dataset that `name` stands for."""
        return self._dataset(name)

    def backbone(self, name: str) -> Backbone:
        """The model that `name` stands for."""
        return self._backbone(name)

    def features(
        self, model: str, dataset: str, split: str, layers: Sequence[str] = ("pooled",)
    ) -> dict[str, StoredFeatures]:
        """Features by layer: from the store, or extracted now."""
        return extract(
            self.backbone(model),
            self.dataset(dataset),
            split,
            self.store,
            layers=layers,
            how=self.how,
            progress=self.progress,
        )

    def card(self, model: str) -> ModelCard:
        """The model's card with its parameters, FLOPs and feature dimension measured; kept for the next time."""
        path = self.home / "cards" / f"{digest([model, backbone_revision(model)])}.json"
        try:
            return _read_card(path)
        except (OSError, ValueError, KeyError, TypeError):
            card = self.backbone(model).with_measured_card().card
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".tmp")
        aside.write_text(json.dumps(card.to_dict(), indent=1), encoding="utf-8")
        aside.replace(path)
        return card


def _read_card(path: Path) -> ModelCard:
    values = json.loads(path.read_text(encoding="utf-8"))
    values["preprocessing"] = Preprocessing.from_dict(values["preprocessing"])
    return ModelCard(**values)
