"""The grammar of model names: `scheme:rest?option=value&...`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import Preprocessing

#: Options that every model takes: they change how images reach it.
PREPROCESSING_OPTIONS = ("size", "resize", "mode", "interpolation")

_CHOICES = {"mode": ("shortest", "squash"), "interpolation": ("nearest", "bilinear", "bicubic", "lanczos")}


@dataclass(frozen=True)
class ModelName:
    """A model name taken apart.

    Attributes:
        scheme: which source loads it.
        rest: what that source calls it.
        options: what stood behind the question mark.
    """

    scheme: str
    rest: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> ModelName:
        before, _, query = text.partition("?")
        scheme, _, rest = before.partition(":")
        if not scheme:
            raise UsageError(f"{text!r} is not a model name. Write scheme:name, such as packaged:efficientnet-lite0.")
        return cls(scheme, rest, dict(parse_qsl(query, keep_blank_values=True)))

    @property
    def identifier(self) -> str:
        """The name written again, options in alphabetical order: one model, one identifier."""
        query = "&".join(f"{key}={value}" for key, value in sorted(self.options.items()))
        return self.scheme + (f":{self.rest}" if self.rest else "") + (f"?{query}" if query else "")

    def check_options(self, *allowed: str) -> None:
        """Refuse an option that the source does not know."""
        known = (*allowed, *PREPROCESSING_OPTIONS)
        for option in self.options:
            if option not in known:
                raise UnknownNameError(f"option of {self.scheme}:{self.rest}", option, known)

    def flag(self, option: str) -> bool:
        """Whether a yes/no option is on."""
        value = self.options.get(option, "false").lower()
        if value not in ("true", "false", "1", "0", "yes", "no", ""):
            raise UsageError(f"option {option}={value} of {self.scheme}:{self.rest} is not true or false")
        return value in ("true", "1", "yes", "")

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
