"""An ONNX graph in the place of a torch module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.onnx_files import graph_digest, output_operators
from unseen.core.errors import CheckpointError, UnknownNameError, first_line

#: Class counts of ImageNet: 1K (with and without a background class), 21K, its processed release, 22K, 12K.
_CLASS_COUNTS = frozenset({1000, 1001, 10450, 11221, 11821, 21841, 21843})


class Graph(nn.Module):
    """A graph that ONNX Runtime runs.

    Attributes:
        own_fingerprint: digest of the graph and of every weights file that it names.
        side: side of the images in pixels; 0 if the graph takes any.
        output: name of the output that holds the features.
        layer: what this output contains.
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
        self.own_fingerprint = graph_digest(path)[:16]
        width = self.session.get_outputs()[names.index(self.output)].shape[-1:]
        self.layer = _describe(path, self.output, width[0] if width else None, names)

    def forward(self, images: Tensor) -> Tensor:
        given = images.permute(0, 2, 3, 1) if self.channels_last else images
        array = np.ascontiguousarray(given.cpu().numpy(), np.float16 if "16" in self._dtype else np.float32)
        step = self._batch or len(array)
        parts = [self._run(array[begin : begin + step], step) for begin in range(0, len(array), step)]
        return torch.from_numpy(np.concatenate(parts))

    def _run(self, array: Any, step: int) -> Any:
        """Run one batch; a graph of a fixed batch size gets its last images more than once."""
        padded = array if len(array) == step else np.concatenate([array, array[-1:].repeat(step - len(array), 0)])
        (found,) = self.session.run([self.output], {self._input: padded})
        return np.asarray(found, np.float32)[: len(array)]


def _describe(path: Path, output: str, width: Any, outputs: list[str]) -> str:
    """Return what an output contains, as far as the graph shows it."""
    operators = output_operators(path, output)
    linear = bool(operators) and operators[-1] in ("Gemm", "MatMul")
    if operators[:1] == ["Softmax"]:
        return "class probabilities"
    if output.lower().startswith("logits") or (linear and len(operators) <= 2 and width in _CLASS_COUNTS):
        return "logits"
    named = f"the graph's only output, {output!r}" if len(outputs) == 1 else f"the graph's output {output!r}"
    return f"{named} (the result of a linear layer)" if linear else named
