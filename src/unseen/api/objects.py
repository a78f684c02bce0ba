"""Register in-memory models and datasets under generated names while a call runs, and run its study."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from unseen.backbones.backbone import ImageTransform
from unseen.backbones.load import expand_models, resolve_model
from unseen.benchmarks.workbench import Workbench
from unseen.core.arrays import AnyArray
from unseen.core.errors import BackboneError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.records import Preprocessing, Result
from unseen.data import Dataset, load_dataset
from unseen.data.dataset import join_splits
from unseen.data.load import resolve_dataset
from unseen.data.user_data import LabelledImages
from unseen.features import Extraction, NoProgress, Progress
from unseen.run.execute import run_study
from unseen.run.study import Study

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset as TorchDataset

    from unseen.backbones import Backbone

#: A name (`timm:resnet50`), a checkpoint or ONNX file, a torch module, a function from a batch of images to an array,
#: or a backbone.
Model: TypeAlias = "str | Path | nn.Module | Callable[..., Any] | Backbone"
#: A dataset's name, a folder, (images, labels) or images alone, a torch or Hugging Face dataset, or a data frame with
#: paths and labels. Images are Pillow images, arrays, tensors or paths.
Data: TypeAlias = "str | Path | Dataset | TorchDataset[Any] | Sequence[Any] | tuple[Any, Any] | AnyArray | Any"

#: Results of Python calls are stored under this study name by default.
STUDY = "python"


class CallFailedError(BackboneError):
    """The evaluation failed; the message has the reason."""


class NamedObjects(ExitStack):
    """Register objects under names until the end of a `with` block."""

    def model(
        self,
        model: Model,
        *,
        name: str = "",
        transform: ImageTransform | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> str:
        """Return the name of a model, registering it if it is an object."""
        if isinstance(model, str | Path):
            if transform is not None or preprocessing is not None:
                raise UsageError(
                    "a model by name brings its own preprocessing. Change it in the name, such as ?size=288, or give "
                    "the loaded module."
                )
            return resolve_model(str(model), Path())
        from unseen.backbones.objects import OBJECTS, as_backbone  # imports torch

        found = OBJECTS.add(as_backbone(model, name=name, transform=transform, preprocessing=preprocessing))
        self.callback(OBJECTS.release, found)
        return found

    def models(self, models: Mapping[str, Model] | Sequence[Model] | Model) -> dict[str, str]:
        """Return the names of models by label; patterns such as `timm:*dino*` become several models."""
        if isinstance(models, Mapping):
            return {str(label): self.model(model, name=str(label)) for label, model in models.items()}
        several: Sequence[Any] = models if isinstance(models, list | tuple) else [models]
        expanded = [one for model in several for one in (expand_models(model) if isinstance(model, str) else [model])]
        return {named: named for named in map(self.model, expanded)}

    def dataset(self, data: Data, test: Data | None = None) -> str:
        """Return the name of a dataset, registering it if it is an object."""
        if isinstance(data, str | Path) and test is None:
            return resolve_dataset(str(data), Path())
        from unseen.data.adapters import OBJECTS, as_dataset  # imports torch

        if not isinstance(data, Dataset) or test is not None:
            data = as_dataset(_all_images(data), _all_images(test))
        found = OBJECTS.add(data)
        self.callback(OBJECTS.release, found)
        return found

    def __enter__(self) -> Self:
        super().__enter__()
        return self


class NotebookProgress(NoProgress):
    """Print the progress of a task on one line of a notebook."""

    def begin(self, title: str, total: int, done: int) -> None:
        self._title, self._total, self._done = title, total, done

    def advance(self, images: int, skipped: int) -> None:
        self._done += images
        sys.stderr.write(f"\r{self._title}: {self._done:,} of {self._total:,} images")

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def end(self) -> None:
        self.note("")


def workbench(home: Path | str | None, how: Extraction | None, progress: Progress | None) -> Workbench:
    """Return a workbench over the home folder; in a notebook, it prints progress."""
    if progress is None and "ipykernel" in sys.modules:
        progress = NotebookProgress()
    return Workbench(home_folder(home), how=how or Extraction(), progress=progress)


def run(
    name: str, models: Sequence[str], dataset: str, options: Mapping[str, Any], bench: Workbench
) -> tuple[list[Result], tuple[str, ...]]:
    """Run a probe study without a report; return its results and the names of the classes.

    Raises:
        UnseenError: a cell failed.
    """
    unique = tuple(dict.fromkeys(models))
    study = Study(name, unique, (dataset,), {"probe": options}, extraction=bench.how, source=f"unseen.{name}")
    results = list(run_study(study, report=False, bench=bench, on_error="ignore").results)
    for result in results:
        if not result.ok:
            raise CallFailedError(" ".join(result.error.split()))
    return results, tuple(bench.dataset(dataset).class_names)


def _all_images(data: Data | None) -> object:
    """Return all images of a dataset of ours as one object; anything else unchanged."""
    if isinstance(data, str | Path):
        data = load_dataset(resolve_dataset(str(data), Path()))
    if not isinstance(data, Dataset):
        return data
    parts = list(data.splits.values())
    labels = [data.class_names[label] for part in parts for label in part.labels]
    return LabelledImages((), labels, title=data.card.name or "images", split=join_splits(parts))
