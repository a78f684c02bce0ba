"""Objects under names for as long as a call lasts: the house works with names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unseen.backbones.load import expand_models, resolve_model
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import BackboneError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.records import Preprocessing, Result
from unseen.data import Dataset
from unseen.data.dataset import join_splits
from unseen.data.load import resolve_dataset
from unseen.features import Extraction, Progress
from unseen.run.execute import run_study
from unseen.run.study import Study

#: Results of calls are filed under this name where none is given.
STUDY = "python"


class Holder:
    """Gives names to objects and forgets them at the end of the call that it serves."""

    def __init__(self) -> None:
        self._release: list[tuple[Callable[[str], None], str]] = []

    def model(
        self,
        model: Any,
        *,
        name: str = "",
        transform: Callable[[Any], Any] | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> str:
        """The name of a model: of a name or path as it stands, of an object a new one."""
        if isinstance(model, str | Path):
            if transform is not None or preprocessing is not None:
                raise UsageError(
                    "a model by name brings its own preprocessing. Change it in the name, such as ?size=288, or give "
                    "the loaded module."
                )
            return resolve_model(str(model), Path())
        from unseen.backbones.objects import OBJECTS, as_backbone

        held = OBJECTS.add(as_backbone(model, name=name, transform=transform, preprocessing=preprocessing))
        self._release.append((OBJECTS.release, held))
        return held

    def dataset(self, data: Any, test: Any = None) -> str:
        """The name of a dataset: of a name or path as it stands, of an object a new one."""
        if isinstance(data, str | Path) and test is None:
            return resolve_dataset(str(data), Path())
        from unseen.data.adapters import OBJECTS, as_dataset

        held = OBJECTS.add(
            data if isinstance(data, Dataset) and test is None else as_dataset(_given(data), _given(test))
        )
        self._release.append((OBJECTS.release, held))
        return held

    def close(self) -> None:
        for release, name in self._release:
            release(name)


@contextmanager
def holding() -> Iterator[Holder]:
    """Objects that are named within are forgotten at the end; whatever a user's own code raises is told in one line."""
    holder = Holder()
    try:
        yield holder
    finally:
        holder.close()


def name_models(holder: Holder, models: Any, **how: Any) -> dict[str, str]:
    """Names by label: of a mapping, of several models (patterns such as timm:*dino* among them), or of one."""
    if isinstance(models, Mapping):
        return {str(label): holder.model(model, name=str(label), **how) for label, model in models.items()}
    several: Sequence[Any] = models if isinstance(models, list | tuple) else [models]
    found: dict[str, str] = {}
    for model in several:
        for one in expand_models(model) if isinstance(model, str) else [model]:
            named = holder.model(one, **how)
            found[named] = named
    return found


def workbench(
    home: Path | str | None, how: Extraction | None, progress: Progress | None, **extraction: Any
) -> Workbench:
    """A workbench over the home folder; `extraction` are single settings of it."""
    chosen = how or Extraction(**extraction)
    return Workbench(home_folder(home), how=chosen, progress=progress)


def run(name: str, models: Sequence[str], dataset: str, benchmarks: Any, bench: Workbench) -> list[Result]:
    """The results of a study without a page; the first failure is raised.

    Raises:
        UnseenError: a cell failed, for whatever reason.
    """
    study = Study(name, tuple(models), (dataset,), benchmarks, extraction=bench.how, source=f"unseen.{name}")
    results = list(run_study(study, report=False, bench=bench, on_error="ignore").results)
    for result in results:
        if not result.ok:
            raise CallFailedError(" ".join(result.error.split()))
    return results


class CallFailedError(BackboneError):
    """What was asked could not be computed; the message has the reason."""


def _given(data: Any) -> Any:
    """One of our datasets, named beside another, as an object among others: all of its images."""
    if isinstance(data, str | Path):
        from unseen.data import load_dataset

        data = load_dataset(resolve_dataset(str(data), Path()))
    if not isinstance(data, Dataset):
        return data
    from unseen.data.user_data import LabelledImages

    parts = list(data.splits.values())
    labels = [data.class_names[label] for part in parts for label in part.labels]
    return LabelledImages((), labels, title=data.card.name or "images", split=join_splits(parts))
