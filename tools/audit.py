"""Check installed packages, and the lowest versions that pyproject.toml allows, against known vulnerabilities.

    python -m tools.audit            part of `make check`
    python -m tools.audit --online   also run pip-audit, which needs the network

`tools/known_flaws.toml` lists the vulnerabilities. The exit code is 1 if an installed package has one of them, or if
pyproject.toml allows a version that has one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def flaws(installed: dict[str, str], allowed: list[str], known: dict[str, dict[str, str]]) -> list[str]:
    """What is wrong, in lines: of versions that are there, and of requirements that would let an old one in."""
    found = [
        f"{name} {installed[name]} is installed; {row['from']} is the first without {row['flaw']}."
        for name, row in known.items()
        if name in installed and Version(installed[name]) < Version(row["from"])
    ]
    for text in allowed:
        wanted = Requirement(text)
        row = known.get(wanted.name.lower().replace("_", "-"))
        lowest = min((Version(s.version) for s in wanted.specifier if s.operator in (">=", "==", "~=")), default=None)
        if row is not None and (lowest is None or lowest < Version(row["from"])):
            found.append(f"pyproject.toml allows {text!r}; {row['from']} is the first without {row['flaw']}.")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__)
    parser.add_argument("--online", action="store_true", help="ask pip-audit as well")
    asked = parser.parse_args()
    known = tomllib.loads((ROOT / "tools/known_flaws.toml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    installed = {}
    for name in known:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    found = flaws(installed, [text for text in allowed if not text.startswith("unseen[")], known)
    print("\n".join(found) or f"{len(installed)} packages that read what strangers wrote: no flaw of the list.")
    if asked.online:
        return subprocess.run([sys.executable, "-m", "pip_audit", "--local", "--skip-editable"]).returncode or bool(
            found
        )
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
