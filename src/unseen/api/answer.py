"""The base class of what the Python functions return: display in a notebook, data frame, files, run record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.core.identity import Values, to_json
from unseen.core.run_record import RunRecord
from unseen.results.export import csv_line

_SHOWN_ROWS = 60
_STYLE = "text-align:right;padding:0.15em 0.7em;font-variant-numeric:tabular-nums"


class Answer(ABC):
    """A table with a headline and a run record.

    A subclass returns its rows (plain values by column), a headline, and the record of the evaluations behind them.
    """

    #: Columns with values in [0, 1] that are displayed in percent.
    percent: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def rows(self) -> list[Values]:
        """Return the table in full precision, one dict per row."""

    @abstractmethod
    def headline(self) -> str:
        """Return the main result in one line."""

    @property
    @abstractmethod
    def record(self) -> RunRecord:
        """What the evaluations received, what they used, and what they dropped and why."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'. '.join([self.headline(), *self._notes()])}>"

    def _notes(self) -> list[str]:
        """Return the findings of the run record in one line, if there are any."""
        found = self.record.findings()
        return [f"Note: {'; '.join(found)} (see .record)"] if found else []

    def _repr_html_(self) -> str:
        rows, columns = self.rows(), self._columns()
        texts = ([self._text(name, row.get(name)) for name in columns] for row in rows[:_SHOWN_ROWS])
        table = "".join([_html_row("th", columns), *(_html_row("td", row) for row in texts)]) if rows else ""
        more = [f"{len(rows) - _SHOWN_ROWS} more rows."] if len(rows) > _SHOWN_ROWS else []
        notes = "".join(f"<p>{escape(text)}</p>" for text in [*more, *self._notes()])
        return f"<div><p><b>{escape(self.headline())}</b></p><table>{table}</table>{notes}</div>"

    def to_pandas(self) -> Any:
        """Return the rows as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return import_extra("pandas", "frames").DataFrame(self.rows())

    def save(self, path: str | Path) -> Path:
        """Write the rows to a file (.csv, .json or .html) and return its path."""
        target = Path(path).expanduser()
        kind = target.suffix.lower()
        if kind == ".csv":
            columns = self._columns()
            lines = [csv_line(row.get(name) for name in columns) for row in self.rows()]
            write_whole(target, "".join([csv_line(columns), *lines]))
        elif kind == ".json":
            values = {"headline": self.headline(), "rows": self.rows(), **self._more(), "record": self.record.to_dict()}
            write_whole(target, to_json(values))
        elif kind in (".html", ".htm"):
            write_whole(target, f"<!doctype html><meta charset=utf-8>{self._repr_html_()}")
        else:
            raise UsageError(f"{target.name} ends in {kind or 'nothing'}; .csv, .json and .html are written.")
        return target

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows() for name in row))

    def _more(self) -> Values:
        """Return the values that JSON has beside the rows."""
        return {}

    def _text(self, name: str, value: object) -> str:
        if value is None or value != value:
            return ""
        if isinstance(value, float):
            return percent(value) if name in self.percent else f"{value:.4g}"
        return str(value)


def _html_row(tag: str, texts: Iterable[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_STYLE}">{escape(text)}</{tag}>' for text in texts) + "</tr>"


def percent(value: float) -> str:
    """Return a value in [0, 1] as a percentage."""
    return f"{100 * value:.1f} %"
