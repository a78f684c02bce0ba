"""`onnx:FILE`: a graph that somebody exported, run as it is.

Its first input takes images (n, 3, h, w) of floats, or (n, h, w, 3). Its first output is the features; `output=NAME`
takes another. The side of the images is the graph's own, or `size=`; values are ImageNet's unless `mean=` and `std=`
(one number, or three with commas between) say otherwise: a graph does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.forwards import output_forward
from unseen.backbones.load import BackboneSource
from unseen.backbones.names import ModelName
from unseen.core.errors import CheckpointError, UnknownNameError, UsageError, first_line
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard, Preprocessing

_SIDE = 224


class OnnxSource(BackboneSource):
    """Graphs on this machine."""

    pattern, hint = "onnx:FILE", "an exported graph; the path alone does too: mine.onnx"
    paths = ("",)

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def check(self, name: ModelName) -> None:
        name.check_options("output", "mean", "std")
        _existing(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        path = _existing(name)
        graph = _Graph(path, name.options.get("output"))
        side = graph.side or int(name.options.get("size", _SIDE))
        usual = replace(Preprocessing(size=side, resize=side), **_normalisation(name))  # type: ignore[arg-type]
        card = ModelCard(id=str(name), name=path.name, group="onnx", architecture="onnx", source=str(path))
        note = f"features: output {graph.output!r}; mean {usual.mean} and deviation {usual.std} are taken for its own"
        return Backbone(card, graph, output_forward, name.adjust(usual), notes=(note,), exportable=False)

    def revision(self, name: ModelName) -> str:
        return "sha256 " + file_digest(_existing(name))[:16]


class _Graph(nn.Module):
    """An ONNX graph in the place of a module.

    Attributes:
        own_fingerprint: of the file.
        side: of the images, 0 where the graph takes any.
    """

    def __init__(self, path: Path, output: str | None) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self.session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            first = first_line(error)
            raise CheckpointError(f"{path.name} cannot be read as an ONNX graph: {first}") from error
        taken, names = self.session.get_inputs()[0], [each.name for each in self.session.get_outputs()]
        if output is not None and output not in names:
            raise UnknownNameError(f"output of {path.name}", output, names)
        self.output, self._input, self._dtype = output or names[0], taken.name, taken.type
        shape = list(taken.shape)
        if len(shape) != 4:
            raise CheckpointError(f"{path.name} takes {shape}; images (n, 3, h, w) are needed.")
        self.channels_last = shape[3] in (1, 3)
        sides = [each for each in (shape[1:3] if self.channels_last else shape[2:]) if isinstance(each, int)]
        self.side = int(sides[0]) if sides else 0
        self._batch = shape[0] if isinstance(shape[0], int) else 0
        self.own_fingerprint = file_digest(path)[:16]

    def forward(self, images: Tensor) -> Tensor:
        given = images.permute(0, 2, 3, 1) if self.channels_last else images
        array = np.ascontiguousarray(given.cpu().numpy(), np.float16 if "16" in self._dtype else np.float32)
        step = self._batch or len(array)
        parts = [self._run(array[begin : begin + step], step) for begin in range(0, len(array), step)]
        return torch.from_numpy(np.concatenate(parts))

    def _run(self, array: Any, step: int) -> Any:
        """One call; a graph of a fixed batch gets its last images more than once."""
        padded = array if len(array) == step else np.concatenate([array, array[-1:].repeat(step - len(array), 0)])
        (found,) = self.session.run([self.output], {self._input: padded})
        return np.asarray(found, np.float32)[: len(array)]


def _existing(name: ModelName) -> Path:
    path = Path(name.rest).expanduser()
    if not path.is_file():
        raise CheckpointError(f"no graph at {path}. Give the path of an .onnx file.")
    return path


def _normalisation(name: ModelName) -> dict[str, tuple[float, ...]]:
    found = {}
    for option in ("mean", "std"):
        if (text := name.options.get(option)) is None:
            continue
        try:
            values = tuple(float(part) for part in text.split(","))
        except ValueError:
            values = ()
        if len(values) not in (1, 3):
            raise UsageError(f"{name}: {option}={text} is not one number, or three with commas between.")
        found[option] = values * 3 if len(values) == 1 else values
    return found
