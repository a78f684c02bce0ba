"""What a ranking costs: weights to download, and images within a time budget.

Weights are downloaded while earlier checkpoints are extracted, at most AHEAD of them in advance. Images are sampled by
class, in rounds of growing size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Semaphore, Thread
from time import perf_counter

from unseen.backbones.load import hub_repository
from unseen.core.extras import cached_file, reachable
from unseen.ranking.ridge import FEWEST

#: Downloaded checkpoints that wait for their extraction.
AHEAD = 2
#: Files of weights, the usual one first.
_FILES = ("model.safetensors", "pytorch_model.bin")
#: Share of the remaining time that is kept in reserve, and the factor by which a round must be larger than the last.
_RESERVE, _GROWTH = 0.1, 1.5


@dataclass(frozen=True)
class Weights:
    """Weights of a checkpoint on the Hugging Face hub.

    Attributes:
        repository: of the hub; "" for weights from elsewhere.
        path: of the file in the cache; None if it has to be downloaded.
        size: bytes; None if unknown.
    """

    repository: str = ""
    path: Path | None = None
    size: int | None = None


def find_weights(model: str) -> Weights:
    """Return where the weights of a checkpoint are, and their size as far as the cache or the hub knows it."""
    repository = hub_repository(model)
    for file in _FILES if repository else ():
        if (path := cached_file(repository, file)) is not None:
            return Weights(repository, path, path.stat().st_size)
    return Weights(repository, size=_published_size(repository) if repository and reachable() else None)


def _published_size(repository: str) -> int | None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # planning offline does not need it

    for file in _FILES:
        with suppress(OSError, ValueError):  # a file that the repository lacks, or no answer
            return get_hf_file_metadata(hf_hub_url(repository, file)).size
    return None


@contextmanager
def downloads(models: Sequence[str], *, delete: bool = False) -> Iterator[Callable[[str], None]]:
    """Download weights in the background; yield a function to call with each checkpoint that is finished.

    A download that fails is left to the loading of the checkpoint, which reports the reason.

    Args:
        models: in the order in which they are extracted.
        delete: remove the files that were downloaded here, each as soon as its checkpoint is finished.
    """
    found = {model: find_weights(model) for model in models}
    wanted = {model: each.repository for model, each in found.items() if each.repository and each.path is None}
    wanted = wanted if wanted and reachable() else {}
    fetched: dict[str, Path] = {}
    room, stopped = Semaphore(AHEAD), Event()

    def fetch() -> None:
        from huggingface_hub import hf_hub_download  # only downloads need it

        for model, repository in wanted.items():
            room.acquire()
            for file in _FILES:
                if stopped.is_set():
                    return
                with suppress(OSError, ValueError):
                    fetched[model] = Path(hf_hub_download(repository, file))
                    break

    def finished(model: str) -> None:
        path = fetched.pop(model, None)
        if delete and path is not None:
            path.resolve().unlink(missing_ok=True)  # the cache has links to its files
            path.unlink(missing_ok=True)
        if model in wanted:
            room.release()

    Thread(target=fetch, name="downloads", daemon=True).start()
    try:
        yield finished
    finally:
        stopped.set()
        room.release()


def fit_sample(budget: float, total: int, classes: int, work: Callable[[int], object]) -> tuple[int, str]:
    """Return the number of images that fit into a budget (seconds from now), 0 for all, and a remark.

    The first round has two images per class; fewer are useless, so that it may exceed the budget. Each further round is
    as large as the remaining time allows at the speed of the last one, which includes the loading of all checkpoints.

    Args:
        total: images that there are.
        classes: number of classes; 1 without classes.
        work: rank so many images; its results are stored, so that the last round costs nothing again.
    """
    began = perf_counter()
    size, grown = 0, min(total, max(2 * classes + 1, FEWEST if classes == 1 else 0))
    while grown >= _GROWTH * size and size < total:
        size, start = grown, perf_counter()
        work(size)
        now = perf_counter()
        left = budget - (now - began)
        grown = min(total, int((1 - _RESERVE) * left * size / max(now - start, 1e-9)))
    if size >= total:
        return 0, ""
    short = " (more time is needed for two images of every class)" if grown < 0 else ""
    return size, f"{size} of {total} images, by class, to fit {budget:.0f} s{short}"
