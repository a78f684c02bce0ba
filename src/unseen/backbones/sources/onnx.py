"""`onnx:FILE`: an exported graph.

Its first input takes images (n, 3, h, w) of floats, or (n, h, w, 3). Its first output is the features; `output=NAME`
chooses another. The side of the images is the graph's own, or `size=`. A graph does not state its normalisation:
ImageNet's is used unless `mean=` and `std=` (one number, or three separated by commas) are given.
"""

from __future__ import annotations

from pathlib import Path

from unseen.backbones.backbone import Backbone
from unseen.backbones.forwards import output_forward
from unseen.backbones.load import BackboneSource, ModelName
from unseen.backbones.onnx_files import external_files, graph_digest
from unseen.core.errors import UsageError
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

_SIDE = 224


class OnnxSource(BackboneSource):
    """Graphs on this machine."""

    pattern, hint = "onnx:FILE", "an exported graph; the path alone is enough: mine.onnx"
    paths = ("",)

    def check(self, name: ModelName) -> None:
        name.check_options("output", "mean", "std")
        _normalisation(name)
        external_files(_existing(name))

    def load(self, name: ModelName) -> Backbone:
        from unseen.backbones.runtimes import Graph  # imports torch

        self.check(name)
        path = _existing(name)
        chosen = name.adjust(Preprocessing(size=_SIDE, resize=_SIDE)).size
        graph = Graph(path, name.options.get("output"), chosen)
        side = graph.side or chosen
        usual = Preprocessing.from_dict({"size": side, "resize": side, **_normalisation(name)})
        card = ModelCard(id=str(name), name=path.name, group="onnx", architecture="onnx", source=str(path))
        note = f"features: output {graph.output!r}; mean {usual.mean} and deviation {usual.std} are taken for its own"
        loaded = LoadedModel(file=path.name, architecture="onnx", layer=graph.layer)
        return Backbone(card, graph, output_forward, name.adjust(usual), notes=(note,), exportable=False, loaded=loaded)

    def revision(self, name: ModelName) -> str:
        return "sha256 " + graph_digest(_existing(name))[:16]


def _existing(name: ModelName) -> Path:
    return name.file("graph", "an .onnx")


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
