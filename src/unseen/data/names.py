"""The options of a dataset's name, read one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unseen.core.errors import UsageError, closest


class Options:
    """The options of an id. Whoever reads one thereby says that it is known; `finish` refuses the others."""

    def __init__(self, dataset: str, values: Mapping[str, str]) -> None:
        self.dataset = dataset
        self._values = dict(values)
        self._known: set[str] = set()

    def text(self, key: str) -> str | None:
        self._known.add(key)
        return self._values.get(key)

    def integer(self, key: str, *, at_least: int = 0) -> int | None:
        value = self.text(key)
        if value is None:
            return None
        if not value.lstrip("-").isdecimal() or int(value) < at_least:
            raise self.error(key, f"a whole number from {at_least} on")
        return int(value)

    def fraction(self, key: str) -> float | None:
        value = self.text(key)
        if value is None:
            return None
        number = as_number(value)
        if number is None or not 0 <= number < 1:
            raise self.error(key, "a share from 0 to less than 1, such as 0.2")
        return number

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of `choices`; the first where the option is not given."""
        value = self.text(key)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self.error(key, "one of " + ", ".join(choices))
        return value

    def error(self, key: str, allowed: str) -> UsageError:
        return UsageError(f"dataset {self.dataset!r}: option {key}={self._values[key]!r} should be {allowed}.")

    def finish(self) -> None:
        """Refuse options that nobody has read."""
        for key in self._values:
            if key not in self._known:
                near = closest(key, self._known)
                advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(self._known))}."
                raise UsageError(f"dataset {self.dataset!r} has no option {key!r}. {advice}")


def as_number(text: str) -> float | None:
    """The number that `text` is, or None."""
    try:
        return float(text)
    except ValueError:
        return None
