"""The settings of an extraction. This module imports no deep-learning library, so that help and plans are fast."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from unseen.backbones.load import RuntimeName
from unseen.core.errors import UsageError
from unseen.core.identity import option
from unseen.core.options import Natural, Positive, check_options
from unseen.core.records import Preprocessing

Truncated = Literal["refuse", "accept"]
Precision = Literal["fp32", "bf16", "fp16"]

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


@dataclass(frozen=True)
class Extraction:
    """How to extract. The defaults suit any machine; numbers agree across devices because fp32 is one of them."""

    device: str = option(
        "auto", neutral="devices agree to 1e-4", help="auto, cpu, cuda, cuda:1 or mps: where the network runs."
    )
    runtime: RuntimeName = option("auto", help="auto is onnx on the CPU (openvino in bf16) and torch elsewhere.")
    precision: Precision = option("fp32", help="Of the computation; bf16 and fp16 are faster on some devices.")
    dtype: Literal["float32", "float16"] = option("float32", help="Of the stored features; float16 halves the disk.")
    workers: Natural = option(0, neutral="images are independent", help="Threads; 0 means one per core.")
    batch_size: Natural = option(
        0, neutral="images are independent", help="Images per batch; 0 means 8 on the CPU, 128 elsewhere."
    )
    part_size: Positive = option(
        1024, neutral="parts are joined", help="Images per part file: what a kill loses at most."
    )
    truncated: Truncated = option("refuse", help="accept keeps images whose file ends early, as ImageNet-CoG does.")
    graphs: Path | None = option(None, neutral="a cache", help="Folder for exported graphs; under the home by default.")

    def __post_init__(self) -> None:
        check_options(self)
        if not _DEVICE.fullmatch(self.device):
            raise UsageError(f"device {self.device!r} is none of auto, cpu, cuda, cuda:NUMBER, mps.")


def tf_preprocessing(own: Preprocessing, *, centred: bool = False) -> Preprocessing:
    """Return the preprocessing of the authors of VTAB: both sides resized as TensorFlow 1 does.

    Args:
        own: of the model; its size, mean and deviation are kept, because they belong to its weights.
        centred: values in [-1, 1] instead, for a network that is trained from scratch.
    """
    resized = replace(own, resize=own.size, mode="squash", interpolation="tf-bilinear")
    return replace(resized, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)) if centred else resized
