"""BYOL's published weights: a dill pickle of Haiku parameters, read as arrays alone.

Format:     {"experiment_state": named tuple (online_params, target_params, online_state, target_state, opt_state)};
            parameters are mappings of module paths (`res_net50/~/block_group_0/~/block_1/~/conv_2`) to arrays by
            short name (`w`, `b`, `scale`, `offset`); states hold moving averages under `.../mean_ema`, `.../var_ema`.
Implements: the online network, as its authors evaluate it. Mappings of Haiku's own classes, the named tuple and
            whatever else the pickle names become inert records; none of it is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.core.errors import CheckpointError, DataError
from unseen.core.guard import reader
from unseen.core.safe_pickle import Foreign, PickleRules, load_plain_pickle

#: Fields of the named tuple, in order; an inert record keeps its values but not their names.
_STATE_FIELDS = ("online_params", "target_params", "online_state", "target_state", "opt_state")

#: What stands before the parts that every path has: the name of the network as Haiku made it.
_NETWORK = re.compile(r"^.*?(?=initial_|block_group_|classifier|projector|predictor)")


def _create_array(make: Any, arguments: Any, state: Any, *_: Any) -> Any:
    """How dill writes an array: the call and the state that NumPy's own pickle would have had.

    `make` can only be one of the restricted reader's own constructors, or an inert stand-in.
    """
    array = make(*arguments)
    array.__setstate__(state)
    return array


_RULES = PickleRules(
    constructors={(module, "_create_array"): _create_array for module in ("dill._dill", "dill.dill")}, foreign=True
)


@reader("a Haiku checkpoint", error=CheckpointError)
def read_haiku_file(path: Path) -> dict[str, Tensor]:
    """The online network's tensors, named "block_group_0/block_1/conv_2.w", averages as "....mean_ema.average"."""
    try:
        tree = load_plain_pickle(path, _RULES)
        state = _mapping(_mapping(tree)["experiment_state"], _STATE_FIELDS)
        parameters, averages = _mapping(state["online_params"]), _mapping(state["online_state"])
    except (DataError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path.name} is not a checkpoint of BYOL: experiment_state with online_params and online_state are "
            f"looked for ({error})."
        ) from None
    return {name: torch.from_numpy(value) for part in (parameters, averages) for name, value in _arrays(part)}


def _arrays(modules: Mapping[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for path, leaves in modules.items():
        short = _NETWORK.sub("", str(path)).replace("/~/", "/")
        # Haiku numbers a second module of the same name; the stem of some published files has been made twice.
        short = re.sub(r"^(initial_(?:conv|batchnorm))_1\b", r"\1", short)
        for leaf, value in _mapping(leaves).items():
            array = np.asarray(value)
            if array.dtype.kind in "fiu":
                yield f"{short}.{leaf}", np.array(array)


def _mapping(value: Any, fields: tuple[str, ...] = ()) -> Mapping[Any, Any]:
    """A mapping out of whatever stands for one: Haiku's classes are pickled as a call with one dictionary."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Foreign):
        if fields and len(value.arguments) == len(fields):
            return dict(zip(fields, value.arguments, strict=True))
        for inside in (*value.arguments, value.state, value.entries):
            if isinstance(inside, Mapping) and inside:
                return inside
    if fields and isinstance(value, tuple) and len(value) == len(fields):
        return dict(zip(fields, value, strict=True))
    raise TypeError(f"{type(value).__name__} is not a mapping")
