"""OpenVINO on the CPU, for bf16: processors that have it run networks up to twice as fast as in fp32.

The graph is the one that ONNX Runtime takes. It is checked against torch each time, on a few images: in fp32 as
that one is, in bf16, whose eight bits of mantissa move features, at a cosine of 0.99.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra

#: Lowest cosine to torch, on any image, by precision.
AGREEMENT = {"fp32": 0.9999, "bf16": 0.99}


class OpenVinoRuntime:
    """OpenVINO on the CPU; calls from several threads run side by side."""

    name = "openvino"
    note = ""

    def __init__(self, graph: bytes | Path, *, precision: str = "fp32", threads: int = 0) -> None:
        if precision not in AGREEMENT:
            raise UsageError(f"OpenVINO runs fp32 and bf16, not {precision}.")
        openvino = import_extra("openvino", "openvino")
        core, cores = openvino.Core(), os.cpu_count() or 1
        able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if precision == "bf16" and "BF16" not in able:
            self.note = "this processor has no bf16: OpenVINO computes in fp32 what it is asked for in bf16"
        self.precision = precision
        # One thread per stream, as many streams as threads may call: the callers share the cores, not each network.
        settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            "INFERENCE_NUM_THREADS": str(cores if threads == 1 else threads or cores),
            "NUM_STREAMS": str(cores if threads == 1 else 1),
        }
        read = graph.read_bytes() if isinstance(graph, Path) else graph
        self._model: Any = core.compile_model(core.read_model(read), "CPU", settings)
        self._requests = threading.local()

    def __call__(self, pixels: Any) -> tuple[Any, ...]:
        if not hasattr(self._requests, "own"):
            self._requests.own = self._model.create_infer_request()
        found = self._requests.own.infer([pixels])
        return tuple(found[output].copy() for output in self._model.outputs)
