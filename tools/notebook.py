"""Run the notebook of `examples/` and store its outputs: `python -m tools.notebook`.

Cells run in this process, without Jupyter. An output is what a notebook shows of the last expression of a cell: its
text and, if the object has one, its HTML.
"""

from __future__ import annotations

import ast
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "examples" / "ten_minutes.ipynb"


def run_cells(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Run the code cells in order and yield each with the representations of its last expression."""
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        shown = {} if value is None else {"text/plain": repr(value)}
        if make_html := getattr(value, "_repr_html_", None):
            shown["text/html"] = make_html()
        yield cell, shown


def store_outputs(path: Path = NOTEBOOK) -> None:
    """Run a notebook in an empty folder with an empty home, and write its outputs into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["UNSEEN_HOME"] = str(Path(folder) / "home")
        for number, (cell, shown) in enumerate(run_cells(notebook), start=1):
            data = {kind: text.splitlines(keepends=True) for kind, text in shown.items()}
            result = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
            cell |= {"execution_count": number, "outputs": [result] if data else []}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    store_outputs()
