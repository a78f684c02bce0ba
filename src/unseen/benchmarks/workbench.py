"""The workbench of a benchmark: datasets and features by name, cards of models, and embeddings of class names.

One workbench serves a whole run in one process: planning, evaluation and the page load each dataset, its fingerprints
and each model once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.backbones.load import backbone_revision, load_backbone
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.core.files import at_home, write_whole
from unseen.core.identity import digest, identify
from unseen.core.names import Name
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import Recorder, RunRecord, SplitCounts, dropped
from unseen.data import Dataset, Split, load_dataset
from unseen.data.dataset import ALL
from unseen.data.load import SOURCES
from unseen.data.sources.features import FeatureDataset, given_names
from unseen.features import Extraction, FeatureRows, FeatureStore, NoProgress, Progress

if TYPE_CHECKING:
    from unseen.backbones import Backbone


#: A change of a model before extraction, such as another preprocessing.
View = Callable[["Backbone"], "Backbone"]


@dataclass(frozen=True)
class Wanted:
    """Features that a group of cells reads: layers of a model over a split of a dataset, through a view of it."""

    dataset: str
    split: str
    layers: tuple[str, ...] = ("pooled",)
    view: View | None = None


@dataclass(frozen=True, eq=False)
class SplitRows:
    """Features and labels of the readable images of one split.

    Attributes:
        features: (rows, dimensions); rows can be sliced, and are read from the disk on demand.
        labels: class per row, by the dataset: two labellings of the same images share their features.
        index: position of each row among all images of the split.
        total: number of images of the split.
        skipped: images that could not be read, with the reason.
        speed: images per second of the extraction; None if it is unknown.
        groups: (rows,) group of each image, if the dataset has groups.
    """

    features: Any
    labels: IntArray
    index: IntArray
    total: int
    skipped: dict[str, str] = field(default_factory=dict)
    speed: float | None = None
    groups: IntArray | None = None

    def record(self, split: str, expected: int | None = None) -> RunRecord:
        """Return the run record of reading these rows: images found, used and unreadable.

        Args:
            expected: number of images that the protocol prescribes for the split.
        """
        counts = SplitCounts(self.total, self.total - len(self.skipped), expected)
        return RunRecord(images={split: counts}, dropped=dropped("image", self.skipped, split))


class Workbench:
    """Datasets, features and cards, over one home folder.

    Args:
        home: folder of features, graphs and cards.
        how: settings of the extraction; graphs are stored under `home` unless they name another folder.
        progress: receives the progress of extractions.
    """

    def __init__(self, home: Path, *, how: Extraction | None = None, progress: Progress | None = None) -> None:
        how = how or Extraction()
        self.home = Path(home)
        self.how = how if how.graphs else replace(how, graphs=self.home / "graphs")
        self.progress = progress or NoProgress()
        self.store = FeatureStore(self.home / "features")
        #: Collects what the current group of cells receives, uses and drops.
        self.recorder = Recorder()
        self._dataset = lru_cache(maxsize=32)(load_dataset)
        self._backbone = lru_cache(maxsize=1)(load_backbone)
        self._weights = lru_cache(maxsize=None)(backbone_revision)
        #: Samples of datasets that were read, by dataset and split: larger ones reuse their features.
        self._samples: dict[tuple[str, str], dict[str, Dataset]] = {}

    def dataset(self, name: str) -> Dataset:
        """Return the dataset of a name."""
        with at_home(self.home):
            found = self._dataset(name)
        self.recorder.add(found.record)
        return found

    def backbone(self, name: str) -> Backbone:
        """Return the model of a name."""
        with at_home(self.home):
            found = self._backbone(name)
        if found.loaded is not None:
            self.recorder.model(found.loaded)
        return found

    def revision(self, model: str, dataset: str, others: Sequence[str] = ()) -> str:
        """Return the revision of a cell: digests of the weights and of the data behind the names."""
        with at_home(self.home):
            weights = digest(self._weights(model), length=12)
        data, *more = (self.dataset(name).revision for name in (dataset, *others))
        return f"{weights}+{digest([data, *more], length=12) if more else data}"

    def split(
        self, model: str, dataset: str, split: str, layer: str = "pooled", *, view: View | None = None
    ) -> SplitRows:
        """Return features and labels of a split, from the store or extracted now."""
        return self.layers(model, dataset, split, (layer,), view=view)[layer]

    def splits(self, model: str, dataset: str, layer: str = "pooled") -> dict[str, SplitRows]:
        """Return `split` for every split of the dataset."""
        return {name: self.split(model, dataset, name, layer) for name in self.dataset(dataset).splits}

    def layers(
        self, model: str, dataset: str | Dataset, split: str, layers: Sequence[str], *, view: View | None = None
    ) -> dict[str, SplitRows]:
        """Return `split` for several layers, in one pass over the images; of a dataset by name, or of a sample of one.

        Record the images that are found, used and unreadable.
        """
        found = self._layers(model, dataset, split, layers, view=view)
        data = self._data(dataset)
        for rows in found.values():
            self.recorder.add(rows.record(split, data.expected.get(split)))
        groups = data.split(split).groups if split in data.splits else None
        if groups is not None:
            found = {layer: replace(rows, groups=groups[rows.index]) for layer, rows in found.items()}
        return found

    def _data(self, dataset: str | Dataset) -> Dataset:
        return self.dataset(dataset) if isinstance(dataset, str) else dataset

    def _layers(
        self, model: str, dataset: str | Dataset, split: str, layers: Sequence[str], *, view: View | None
    ) -> dict[str, SplitRows]:
        data = self._data(dataset)
        images = data.split(split)
        if model.startswith(GIVEN):
            if other := [layer for layer in layers if layer != "pooled"]:
                raise UnknownNameError(f"layer of {model}", other[0], ["pooled"], hint="The dataset has features only.")
            return dict.fromkeys(layers, _published(data, model, split))
        if images.whole is not None:
            whole = self._layers(model, images.whole.dataset, ALL, layers, view=view)
            return {layer: _select(found, images, images.whole.rows) for layer, found in whole.items()}
        if images.members:
            parts = [self._layers(model, member, name, layers, view=view) for member, name in images.members]
            return {layer: _join(images, [part[layer] for part in parts]) for layer in layers}
        from unseen.features import extract  # imports torch

        backbone, samples = self.backbone(model), self._samples.setdefault((data.id, split), {})
        if not isinstance(dataset, str):
            samples[images.fingerprint] = data
        stored = extract(
            view(backbone) if view else backbone,
            data,
            split,
            self.store,
            layers=layers,
            how=self.how,
            progress=self.progress,
            smaller=[sample for sample in samples.values() if len(sample.split(split)) < len(images)],
        )
        return {
            layer: SplitRows(
                features=found.features,
                labels=images.labels[found.index],
                index=np.asarray(found.index, np.int64),
                total=len(images),
                skipped={images.names[one.index]: one.reason for one in found.skipped},
                speed=found.provenance.get("images", 0) / (found.provenance.get("seconds") or math.inf) or None,
            )
            for layer, found in stored.items()
        }

    def wanted(
        self, dataset: str, layer: str = "pooled", splits: Sequence[str] = (), *, view: View | None = None
    ) -> list[Wanted]:
        """Return the features that `split` of some splits, or `splits`, will read, for `Benchmark.features`."""
        return [Wanted(dataset, split, (layer,), view) for split in splits or self.dataset(dataset).splits]

    def extractions(self, model: str, dataset: str | Dataset, split: str) -> list[tuple[Dataset, str]]:
        """Return the datasets and splits whose images `layers` extracts for a split; none for published features."""
        data = self._data(dataset)
        images = data.split(split)
        if model.startswith(GIVEN):
            return []
        if images.whole is not None:
            return self.extractions(model, images.whole.dataset, ALL)
        if images.members:
            return [each for member, name in images.members for each in self.extractions(model, member, name)]
        return [(data, split)]

    def card(self, model: str) -> ModelCard:
        """Return the model's card with measured parameters, FLOPs and feature dimension; it is stored for later."""
        if model.startswith(GIVEN[1]):
            return ModelCard(id=model, name=model.removeprefix(GIVEN[1]), group="features of a dataset")
        with at_home(self.home):
            weights = self._weights(model)
        path = self.home / "cards" / f"{identify('card', '1', model, weights)}.json"
        try:
            return _read_card(path)
        except (OSError, ValueError, KeyError, TypeError):
            card = self.backbone(model).with_measured_card().card
        write_whole(path, json.dumps(card.to_dict(), indent=1))
        return card

    def cards(self, models: Iterable[str]) -> dict[str, ModelCard]:
        """Return the cards of those models that still load."""
        found = {}
        for model in dict.fromkeys(models):
            with suppress(UnseenError):  # the results of a model that no longer loads are still shown
                found[model] = self.card(model)
        return found


#: Schemes of features that datasets have, in place of a model.
GIVEN = ("xlsa17:", "features:")


def given_models(dataset: str) -> list[str]:
    """Return the names of the features that a dataset has, such as `xlsa17:res101`; none if it needs a model."""
    name = Name.parse(SOURCES.add_scheme(dataset))
    if name.scheme == "features":
        return [f"features:{each}" for each in given_names(Path(name.rest).expanduser())]
    if name.scheme != "xlsa17" or "images" in name.options:
        return []
    return ["xlsa17:" + (Path(name.options["features"]).stem if "features" in name.options else "res101")]


def _select(whole: SplitRows, images: Split, rows: IntArray) -> SplitRows:
    """Return the rows of a split out of those of the images that it was sampled from, without unreadable images."""
    place = np.full(whole.total, -1, np.int64)
    place[whole.index] = np.arange(len(whole.index))
    kept = np.flatnonzero(place[rows] >= 0)
    wanted = place[rows[kept]]
    everything = np.array_equal(wanted, np.arange(len(whole.index)))
    return SplitRows(
        features=whole.features if everything else whole.features[wanted],
        labels=images.labels[kept],
        index=kept,
        total=len(images),
        skipped={name: whole.skipped[name] for name in images.names if name in whole.skipped},
    )


def _published(dataset: Dataset, model: str, split: str) -> SplitRows:
    """Return features that the dataset has; rows are read from the disk on demand where the file allows it."""
    images = dataset.split(split)
    if not isinstance(dataset, FeatureDataset) or images.feature_rows is None:
        raise DataError(f"{model} names features that a dataset has; {dataset.id!r} has none and needs a model.")
    name = model.partition(":")[2]
    if name not in dataset.given_features:
        raise UnknownNameError(f"features of {dataset.id}", name, dataset.given_features)
    rows = FeatureRows.of(dataset.given_features[name](), np.float32).select(images.feature_rows)
    return SplitRows(rows, images.labels, np.arange(len(images)), len(images))


def _join(images: Split, parts: Sequence[SplitRows]) -> SplitRows:
    """Return the rows of a joined split, without a copy."""
    starts = np.cumsum([0, *(part.total for part in parts)])
    index = np.concatenate([part.index + start for part, start in zip(parts, starts, strict=False)])
    return SplitRows(
        features=reduce(FeatureRows.join, [FeatureRows.of(part.features) for part in parts]),
        labels=images.labels[index],
        index=index,
        total=len(images),
        skipped={name: reason for part in parts for name, reason in part.skipped.items()},
    )


def _read_card(path: Path) -> ModelCard:
    values = json.loads(path.read_text(encoding="utf-8"))
    values["preprocessing"] = Preprocessing.from_dict(values["preprocessing"])
    return ModelCard(**values)


def kept_cards(home: Path) -> dict[str, ModelCard]:
    """Return the cards that runs in a home folder have measured, by model; of several weights the last ones."""
    found: dict[str, ModelCard] = {}
    for path in sorted((home / "cards").glob("*.json"), key=lambda each: each.stat().st_mtime):
        with suppress(OSError, ValueError, KeyError, TypeError):
            card = _read_card(path)
            found[card.id] = card
    return found
