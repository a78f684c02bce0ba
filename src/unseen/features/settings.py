"""The settings of an extraction; nothing here needs a network, so that help and plans come at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unseen.backbones.names import RuntimeName
from unseen.core.errors import UsageError
from unseen.core.identity import option
from unseen.core.options import Natural, Positive, check_options

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
