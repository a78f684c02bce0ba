"""Write the generated indexes: packages in docs/architecture.md, decisions in docs/adr, scripts in bench and tools.

python -m tools.indexes           write them
python -m tools.indexes --check   exit with 1 if one is outdated
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable
from pathlib import Path

from tools.size import ROOT, SOURCE

BEGIN, END = "<!-- made by: tools/indexes.py -->", "<!-- end -->"


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".").replace("|", "\\|")


def package_table() -> str:
    """Return the packages of src/unseen with files and lines."""
    rows = ["| package | files | lines | contents |", "|---|---:|---:|---|"]
    for folder in sorted(path for path in SOURCE.iterdir() if (path / "__init__.py").exists()):
        files = sorted(folder.rglob("*.py"))
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        rows.append(f"| `{folder.name}` | {len(files)} | {lines:,} | {first_sentence(folder / '__init__.py')} |")
    return "\n".join(rows)


def decision_table() -> str:
    """Return the decision records with their titles."""
    rows = ["| record | decision |", "|---|---|"]
    for path in sorted((ROOT / "docs/adr").glob("0*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").partition(". ")[2]
        rows.append(f"| [{path.stem[:4]}]({path.name}) | {title} |")
    return "\n".join(rows)


def script_table(folder: Path) -> str:
    """Return the scripts of a folder with the first line of their docstrings."""
    rows = ["| script | purpose |", "|---|---|"]
    names = [path for path in sorted(folder.iterdir()) if path.suffix == ".py" and path.stem != "__init__"]
    names += [path / "__init__.py" for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()]
    for path in names:
        name = path.parent.name + "/" if path.stem == "__init__" else path.name
        rows.append(f"| [`{name}`]({name}) | {first_sentence(path)} |")
    return "\n".join(rows)


INDEXES: dict[Path, Callable[[], str]] = {
    ROOT / "docs/architecture.md": package_table,
    ROOT / "docs/adr/index.md": decision_table,
    ROOT / "bench/README.md": lambda: script_table(ROOT / "bench"),
    ROOT / "tools/README.md": lambda: script_table(ROOT / "tools"),
}


def render(path: Path) -> str:
    """Return the text of a page with its table renewed."""
    text = path.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    if not found or END not in rest:
        raise SystemExit(f"{path}: no lines {BEGIN!r} and {END!r} to write the table between")
    return f"{before}{BEGIN}\n{INDEXES[path]()}\n{END}{rest.partition(END)[2]}"


def outdated() -> list[str]:
    """Return the pages whose table is not what the tool would write."""
    return [str(path.relative_to(ROOT)) for path in INDEXES if render(path) != path.read_text(encoding="utf-8")]


def main() -> int:
    """Write or check the indexes."""
    parser = argparse.ArgumentParser(prog="python -m tools.indexes", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is outdated")
    if parser.parse_args().check:
        found = outdated()
        if found:
            print(f"outdated: {', '.join(found)}. Run python -m tools.indexes.")
        return bool(found)
    for path in INDEXES:
        path.write_text(render(path), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
