"""Run a backbone with ONNX Runtime (bf16: OpenVINO) on the CPU, or with torch (channels-last, autocast) on a GPU.

A runtime maps a batch of uint8 images (n, h, w, 3) to one float32 array (n, d) per requested layer. An exported graph
is compared with torch on a few images: cosine above 0.9999 on each in fp32, above 0.99 in bf16, whose eight bits of
mantissa change features. If it disagrees or cannot be exported, torch runs instead and the reason is stored.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, get_args

import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.backbone import LOGITS, POOLED, Backbone, RuntimeName, pool_layer
from unseen.backbones.onnx_files import graph_digest, image_input, try_graph
from unseen.core.arrays import AnyArray, Float32Array, Pixels
from unseen.core.errors import (
    BackboneError,
    CheckpointError,
    StoreError,
    UnknownNameError,
    UnseenError,
    UsageError,
    first_line,
)
from unseen.core.extras import import_extra, installed, start_session, visible_device
from unseen.core.files import write_whole
from unseen.core.guard import guarded
from unseen.core.identity import identify

#: uint8 (n, h, w, 3), or float32 (n, c, h, w) from a backbone's own transform.
ModelInput = Pixels | Float32Array
Outputs = tuple[Float32Array, ...]

#: Lowest cosine to torch, on any image, by precision.
AGREEMENT = {"fp32": 0.9999, "bf16": 0.99}

#: Suffix of a file with the reason why a graph cannot be used.
_REFUSED = ".refused"

#: torch traces one module at a time.
_TRACING = threading.Lock()


class Runtime(Protocol):
    """Runs one backbone.

    Attributes:
        name: "onnx", "openvino" or "torch"; part of the feature key.
        precision: "fp32", "bf16" or "fp16"; part of the feature key.
        note: why this runtime was chosen, if it is not the default; else "".
    """

    name: str
    precision: str
    note: str

    def __call__(self, pixels: ModelInput) -> Outputs: ...


class Taps(nn.Module):
    """A backbone as a module: from uint8 images, or the output of its own transform, to one (n, d) tensor per layer.

    Args:
        layers: "pooled", "logits" or names of modules, in the order of the outputs.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, backbone: Backbone, layers: Sequence[str] = (POOLED,)) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.module = backbone.module
        self._forward = backbone.forward
        self._prefix_tokens = backbone.prefix_tokens
        self._prepared = backbone.transform is not None
        preprocessing = backbone.preprocessing
        self.register_buffer("mean", torch.tensor(preprocessing.mean).mul(255).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(preprocessing.std).mul(255).view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        images = pixels
        if not self._prepared:
            images = (pixels.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) / self.deviation
        caught: dict[str, Tensor] = {}
        with contextlib.ExitStack() as hooks:
            for name in self.layers:
                if name not in (POOLED, LOGITS):
                    hooks.enter_context(
                        self.module.get_submodule(name).register_forward_hook(self._catch(caught, name))
                    )
            pooled, logits = self._forward(self.module, images)
        caught[POOLED] = pooled
        if logits is not None:
            caught[LOGITS] = logits
        return tuple(caught[name] for name in self.layers)

    def _catch(self, caught: dict[str, Tensor], name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            caught[name] = pool_layer(output, prefix_tokens=self._prefix_tokens)

        return hook


class TorchRuntime:
    """Eager torch. On an accelerator: channels-last, autocast to half precision, pinned copies that do not wait.

    fp32 is computed without TF32, which torch allows in convolutions by default: features of devices agree.
    """

    name = "torch"

    def __init__(
        self, backbone: Backbone, layers: Sequence[str], *, device: str, precision: str = "fp32", note: str = ""
    ) -> None:
        self.device = torch.device(visible_device(device))
        self.precision = precision
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.note = note
        self._taps = Taps(backbone, layers).eval().to(self.device)
        self._taps.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def __call__(self, pixels: ModelInput) -> Outputs:
        batch = torch.from_numpy(pixels)
        if self.device.type == "cuda":
            batch = batch.pin_memory()
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        half = torch.autocast(self.device.type, dtype) if dtype is not None else contextlib.nullcontext()
        with torch.inference_mode(), half:
            outputs = self._taps(batch.to(self.device, non_blocking=True))
        return tuple(value.float().cpu().numpy() for value in outputs)


class OnnxRuntime:
    """ONNX Runtime on the CPU: 2 to 6 times faster than eager torch there."""

    name = "onnx"
    precision = "fp32"
    note = ""

    def __init__(self, graph: bytes | Path, *, threads: int = 1) -> None:
        self.session = start_session(graph, threads)
        self._input = self.session.get_inputs()[0].name

    def __call__(self, pixels: ModelInput) -> Outputs:
        return tuple(self.session.run(None, {self._input: pixels}))


class OpenVinoRuntime:
    """OpenVINO on the CPU, up to twice as fast in bf16; several threads may call it at the same time."""

    name = "openvino"
    note = ""

    def __init__(self, graph: bytes, *, precision: str = "fp32") -> None:
        if precision not in AGREEMENT:
            raise UsageError(f"OpenVINO runs fp32 and bf16, not {precision}.")
        openvino = import_extra("openvino", "openvino")
        core, cores = openvino.Core(), str(os.cpu_count() or 1)
        able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if precision == "bf16" and "BF16" not in able:
            self.note = "this processor has no bf16: OpenVINO computes in fp32"
        self.precision = precision
        # One thread per stream, as many streams as threads may call: the callers share the cores.
        hint = "bf16" if precision == "bf16" else "f32"
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": cores, "NUM_STREAMS": cores}
        self._model: Any = core.compile_model(core.read_model(graph), "CPU", settings)
        self._requests = threading.local()

    def __call__(self, pixels: ModelInput) -> Outputs:
        if not hasattr(self._requests, "own"):
            self._requests.own = self._model.create_infer_request()
        found = self._requests.own.infer([pixels])
        return tuple(found[output].copy() for output in self._model.outputs)


def make_runtime(
    backbone: Backbone,
    layers: Sequence[str] = (POOLED,),
    *,
    device: str = "auto",
    runtime: RuntimeName = "auto",
    precision: str = "fp32",
    cache: Path | None = None,
) -> Runtime:
    """Return the fastest runtime for this machine whose outputs agree with torch; several threads may call it.

    Args:
        layers: layers to return, in this order.
        device: "cpu", "cuda", "mps", or "auto" for the fastest available one.
        runtime: "onnx", "openvino", "torch", or "auto": on the CPU ONNX, in bf16 OpenVINO if it is installed;
            torch elsewhere.
        precision: "fp32", or the faster "bf16" and "fp16", whose numbers differ.
        cache: folder for exported graphs.
    """
    if runtime not in get_args(RuntimeName):
        raise UnknownNameError("runtime", runtime, get_args(RuntimeName))
    if precision not in ("fp32", "bf16", "fp16"):
        raise UnknownNameError("precision", precision, ("fp32", "bf16", "fp16"))
    names = backbone.layer_names()
    if LOGITS in layers and LOGITS not in names:
        raise BackboneError(f"{backbone.id!r} has no class head, so it gives no logits or class probabilities.")
    if unknown := [layer for layer in layers if layer not in names]:
        raise UnknownNameError(f"layer of {backbone.id!r}", unknown[0], names)
    device = best_device() if device == "auto" else device
    graph = _graph_file(backbone, layers, cache)
    chosen, refused = _choose(backbone, device, runtime, precision, graph)
    if chosen == "torch":
        return TorchRuntime(backbone, layers, device=device, precision=precision, note=refused)
    make: Callable[[bytes], Runtime] = OnnxRuntime
    if chosen == "openvino":
        make = partial(OpenVinoRuntime, precision=precision)
    try:
        with _TRACING:
            return _run_graph(chosen, make, backbone, layers, graph)
    except BackboneError as error:
        # The next run does not try again.
        _keep(str(error).encode(), None if graph is None else _refusal(graph, chosen, precision))
        own = precision if chosen == "openvino" else "fp32"
        return TorchRuntime(backbone, layers, device="cpu", precision=own, note=str(error))


def expected_runtime(
    backbone: Backbone,
    layers: Sequence[str],
    *,
    device: str,
    runtime: RuntimeName,
    precision: str,
    cache: Path | None,
) -> str:
    """Return the name of the runtime that `make_runtime` is expected to return on a device, to look for features."""
    return _choose(backbone, device, runtime, precision, _graph_file(backbone, layers, cache))[0]


def _choose(
    backbone: Backbone, device: str, runtime: RuntimeName, precision: str, graph: Path | None
) -> tuple[str, str]:
    """Return the runtime to try, and why an exported graph was refused before ("" if it was not)."""
    if not backbone.exportable:
        return "torch", "the model is not torch code that can be traced"
    if runtime == "auto":
        fast: RuntimeName = "openvino" if precision == "bf16" and installed("openvino") else "torch"
        runtime = "torch" if device != "cpu" else "onnx" if precision == "fp32" else fast
    note = _refusal(graph, runtime, precision) if graph is not None else None
    if runtime != "torch" and note is not None and note.is_file():
        return "torch", note.read_text(encoding="utf-8", errors="replace")
    return runtime, ""


def _graph_file(backbone: Backbone, layers: Sequence[str], cache: Path | None) -> Path | None:
    if cache is None:
        return None
    place = [backbone.weights, backbone.id, list(layers), backbone.preprocessing.to_dict(), torch.__version__]
    return cache / f"{identify('graph', '1', *place)}.onnx"


def _refusal(graph: Path, runtime: str, precision: str) -> Path:
    """Return the file with the reason why a graph cannot be used by a runtime."""
    return graph.with_suffix(_REFUSED if runtime == "onnx" else f".{runtime}-{precision}{_REFUSED}")


def best_device() -> str:
    """Return the fastest kind of device of this machine."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def export_onnx(backbone: Backbone, layers: Sequence[str]) -> bytes:
    """Export the layers of a backbone as an ONNX graph with a free batch dimension."""
    taps = Taps(backbone, layers).eval()
    example = backbone.example(2)
    taps.module = _of_one_size(backbone.module, backbone.preprocessing.size)
    names = [f"layer{i}" for i in range(len(layers))]
    # The deprecated tracing exporter follows hooks, and takes one second where the newer one takes nine.
    with warnings.catch_warnings(), torch.no_grad(), _exporting(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        path = Path(folder) / "graph.onnx"
        torch.onnx.export(
            taps,
            (example,),
            path,
            dynamo=False,
            opset_version=17,
            input_names=["pixels"],
            output_names=names,
            dynamic_axes={name: {0: "n"} for name in ("pixels", *names)},
        )
        return path.read_bytes()


def _of_one_size(module: nn.Module, size: int) -> nn.Module:
    """Return a copy of a transformer with position embeddings of one size.

    Their interpolation in every forward pass cannot be exported.
    """
    if not getattr(module, "dynamic_img_size", False) or not hasattr(module, "set_input_size"):
        return module
    settled: Any = copy.deepcopy(module)
    settled.set_input_size(img_size=(size, size))
    copied: nn.Module = settled
    return copied


@contextlib.contextmanager
def _exporting() -> Iterator[None]:
    """Change settings of torch that an export needs, and restore them afterwards.

    Torch prints a graph that it cannot export, bypassing Python's standard output; its fused attention cannot be
    exported; and it imports the `onnx` package only to search the finished graph for functions written in onnxscript,
    of which a traced module has none.
    """
    attention, library = torch.backends.mha, torch._C
    with contextlib.ExitStack() as restore:
        restore.callback(setattr, library, "_jit_onnx_log", library._jit_onnx_log)
        library._jit_onnx_log = lambda *_: None
        restore.callback(attention.set_fastpath_enabled, attention.get_fastpath_enabled())
        attention.set_fastpath_enabled(False)
        if "onnx" not in sys.modules and find_spec("onnx") is None:
            stand_in: Any = ModuleType("onnx")
            stand_in.load_model_from_string = lambda _content: SimpleNamespace(graph=SimpleNamespace(node=()))
            sys.modules["onnx"] = stand_in
            restore.callback(sys.modules.pop, "onnx")
        yield


def _run_graph(
    kind: str, make: Callable[[bytes], Runtime], backbone: Backbone, layers: Sequence[str], path: Path | None
) -> Runtime:
    """Return a runtime that agrees with torch within its precision, from the stored graph if there is one."""
    if path is not None and path.is_file():
        # A truncated graph, left by a full disk, is exported again.
        with contextlib.suppress(BackboneError), guarded(path, "an ONNX graph", error=BackboneError):
            stored = make(path.read_bytes())
            if kind != "onnx":  # ONNX Runtime's outputs were compared before the graph was stored
                _check_agreement(backbone, layers, stored)
            return stored
    try:
        graph = export_onnx(backbone, layers)
        runtime = make(graph)
    except UnseenError:
        raise
    except Exception as error:  # exporters raise many kinds of errors
        raise BackboneError(f"not exported for {kind}: {first_line(error)}") from error
    _check_agreement(backbone, layers, runtime)
    _keep(graph, path)
    return runtime


def _check_agreement(backbone: Backbone, layers: Sequence[str], runtime: Runtime) -> None:
    """Raise `BackboneError` if an exported graph disagrees with torch: on a few smooth random images, in any layer."""
    pixels = backbone.example(3, seed=0)
    with torch.inference_mode():
        expected = Taps(backbone, layers).eval()(pixels)
    found = map(torch.from_numpy, runtime(pixels.numpy()))
    cosine = min(
        float(torch.nn.functional.cosine_similarity(e.double(), f.double(), dim=1).min())
        for e, f in zip(expected, found, strict=True)
    )
    if cosine < (least := AGREEMENT[runtime.precision]):
        raise BackboneError(
            f"{runtime.name} in {runtime.precision} disagrees with torch: cosine {cosine:.6f} < {least}"
        )


def _keep(content: bytes, path: Path | None) -> None:
    """Store a graph or a reason; if the disk is full, the graph is exported again next time."""
    if path is not None:
        with contextlib.suppress(StoreError):
            write_whole(path, content)


#: Class counts of ImageNet: 1K (with and without a background class), 21K, its processed release, 22K, 12K.
_CLASS_COUNTS = frozenset({1000, 1001, 10450, 11221, 11821, 21841, 21843})


class Graph(nn.Module):
    """A graph that ONNX Runtime runs.

    Attributes:
        own_fingerprint: digest of the graph and of every weights file that it names.
        side: side of the images in pixels; 0 if the graph takes any.
        output: name of the output that holds the features.
        layer: description of this output.
    """

    def __init__(self, path: Path, output: str | None, size: int) -> None:
        super().__init__()
        try_graph(path, output, size)
        with guarded(path.name, "an ONNX graph", error=CheckpointError):
            self.session = start_session(path)
            self._input, self._dtype, shape = image_input(self.session, path.name)
        names = [each.name for each in self.session.get_outputs()]
        if output is not None and output not in names:
            raise UnknownNameError(f"output of {path.name}", output, names)
        self.output = output or names[0]
        self.channels_last = shape[3] in (1, 3)
        self.side = next(filter(None, shape[1:3] if self.channels_last else shape[2:]), 0)
        self._batch = shape[0]
        self.own_fingerprint = graph_digest(path)[:16]
        self.layer = self._describe(self.side or size)

    def forward(self, images: Tensor) -> Tensor:
        given = images.permute(0, 2, 3, 1) if self.channels_last else images
        array = np.ascontiguousarray(given.cpu().numpy(), self._dtype)
        step = self._batch or len(array)
        parts = [self._run(array[begin : begin + step], step) for begin in range(0, len(array), step)]
        return torch.from_numpy(np.concatenate(parts))

    def _run(self, array: AnyArray, step: int) -> Float32Array:
        """Run one batch; a graph of a fixed batch size gets its last images more than once."""
        padded = array if len(array) == step else np.concatenate([array, array[-1:].repeat(step - len(array), 0)])
        with guarded("the ONNX graph", "a model of images", error=BackboneError):
            (found,) = self.session.run([self.output], {self._input: padded})
            if np.ndim(found) < 2 or len(found) != len(padded):
                raise BackboneError(
                    f"output {self.output!r} of the graph has the shape {np.shape(found)} for {len(padded)} images: "
                    "one row of features per image is needed. Choose another with output=NAME."
                )
        return np.asarray(found, np.float32)[: len(array)]

    def _describe(self, side: int) -> str:
        """Describe the output, as far as its name and its values for random images show the content."""
        images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
        found = self(images).flatten(1)
        positive = bool((found >= 0).all())
        if positive and torch.allclose(found.sum(dim=1), torch.ones(2), atol=1e-3):
            return "class probabilities"
        if self.output.lower().startswith("logits") or (not positive and found.shape[1] in _CLASS_COUNTS):
            return "logits"
        return f"the graph's output {self.output!r}"
