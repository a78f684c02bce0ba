"""Model names: the common grammar, with options that change how images reach a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.names import Name
from unseen.core.records import Preprocessing

#: Layer names that every backbone understands beside the names of its modules.
POOLED = "pooled"
LOGITS = "logits"

RuntimeName = Literal["auto", "onnx", "openvino", "torch"]

#: Options that every model takes: they change how images reach it.
PREPROCESSING_OPTIONS = ("size", "resize", "mode", "interpolation")

_CHOICES = {
    "mode": ("shortest", "squash"),
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos", "tf-bilinear"),
}


class ModelName(Name):
    """A model's name taken apart."""

    def check_options(self, *allowed: str) -> None:
        """Refuse an option that the source does not know."""
        known = (*allowed, *PREPROCESSING_OPTIONS)
        for option in self.options:
            if option not in known:
                raise UnknownNameError(f"option of {self.scheme}:{self.rest}", option, known)

    def adjust(self, preprocessing: Preprocessing) -> Preprocessing:
        """The preprocessing with this name's size, resize, mode and interpolation in place."""
        changes: dict[str, str | int] = {}
        for option in PREPROCESSING_OPTIONS:
            if (value := self.options.get(option)) is None:
                continue
            if option in _CHOICES:
                if value not in _CHOICES[option]:
                    raise UnknownNameError(option, value, _CHOICES[option])
                changes[option] = value
            elif not value.isdigit() or int(value) == 0:
                raise UsageError(f"option {option}={value} is not a number of pixels")
            else:
                changes[option] = int(value)
        if "size" in changes and "resize" not in changes:
            # Keep the share of the image that the crop shows.
            changes["resize"] = round(preprocessing.resize * int(changes["size"]) / preprocessing.size)
        adjusted = replace(preprocessing, **changes)  # type: ignore[arg-type]
        if adjusted.resize < adjusted.size:
            raise UsageError(f"resize={adjusted.resize} is smaller than the crop, size={adjusted.size}")
        return adjusted
