"""Tables that benches print in Markdown, so that `python -m tools.record` can keep them and put them on a page."""

from __future__ import annotations


class Table:
    """Rows under a header; shown at the end of a run, when nothing else comes between its lines."""

    def __init__(self, *header: str) -> None:
        self._rows: list[tuple[str, ...]] = [header, ("---",) * len(header)]

    def add(self, *cells: object) -> None:
        row = tuple(str(cell) for cell in cells)
        if len(row) != len(self._rows[0]):
            raise ValueError(f"a row of {len(row)} cells under {len(self._rows[0])} titles")
        self._rows.append(row)

    def __str__(self) -> str:
        first, line, *rows = self._rows
        shown = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (first, *rows)]
        return "\n".join([shown[0], "|" + "|".join(line) + "|", *shown[1:]])

    def show(self) -> None:
        print(f"\n{self}\n", flush=True)
