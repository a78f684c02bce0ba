"""Fixtures for every room: small real images on disk, and a small real model that needs no download."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image
from tests.background import fork_processes

from unseen.core.registry import Registry
from unseen.engines import Engine, make_engine

# A busy machine is not a reason to fail.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

#: Seconds of each file that takes more than a few; `pytest --record-seconds` writes it.
SECONDS = Path(__file__).parent / "seconds.json"

#: timm's own test network: 0.4 M parameters, random weights drawn from seed 0.
SMALL_MODEL = "random:test_efficientnet?size=64"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-seconds", action="store_true", help=f"write the seconds of slow files to {SECONDS.name}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest files, the same number of seconds in each worker: `worksteal` balances the short tests.

    `worksteal` cuts the list into one piece of equal length per worker. Files stay whole to set up their fixtures once.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if workers > 1:
        items[:] = deal(items, json.loads(SECONDS.read_text()), workers)


def deal(items: list[pytest.Item], seconds: dict[str, float], workers: int) -> list[pytest.Item]:
    files = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    load = [0.0] * workers
    for name in sorted(files, key=lambda name: -seconds.get(name, 0.0)):
        if name in seconds:
            least = load.index(min(load))
            shares[least] += files[name]
            load[least] += seconds[name]
    short = [item for name, group in files.items() if name not in seconds for item in group]
    dealt, left = list[pytest.Item](), len(items)
    for number, share in enumerate(shares):
        size = left // (workers - number)  # as many as `worksteal` sends to this worker
        missing = max(size - len(share), 0) if number < workers - 1 else len(short)
        dealt += share + short[:missing]
        del short[:missing]
        left = len(items) - len(dealt)
    return dealt


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--record-seconds"):
        seconds = defaultdict[str, float](float)
        for reports in terminalreporter.stats.values():
            for report in reports:
                if isinstance(report, pytest.TestReport):
                    seconds[report.nodeid.partition("::")[0]] += report.duration
        slow = {name: round(took) for name, took in sorted(seconds.items()) if took > 3}
        SECONDS.write_text(json.dumps(slow, indent=1) + "\n")


@pytest.fixture(autouse=True)
def remove_registrations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove what a test or an example of the docs registers, so that no other test of the process finds it."""
    added: list[tuple[Registry[object], str]] = []
    add = Registry.add

    def recorded(registry: Registry[object], name: str, target: object) -> None:
        caller = sys._getframe(1)
        while caller.f_back is not None and caller.f_globals.get("__name__") == Registry.__module__:
            caller = caller.f_back
        own = str(caller.f_globals.get("__name__")).startswith("unseen.")  # a module of the package, imported late
        if name not in registry._targets and not own:
            added.append((registry, name))
        add(registry, name, target)

    monkeypatch.setattr(Registry, "add", recorded)
    yield
    for registry, name in added:
        registry._targets.pop(name, None)
        registry._loaded.pop(name, None)


@pytest.fixture(autouse=True, scope="session")
def forked_processes() -> None:
    """Fork the workers of engines and the readers of files: a new interpreter takes up to 3 CPU seconds for imports."""
    fork_processes()


@pytest.fixture(scope="session")
def small_model() -> str:
    return SMALL_MODEL


@pytest.fixture(scope="session")
def local_engines() -> Iterator[Callable[[int], Engine]]:
    """`local_engines(workers)` is one engine for all tests: each process of an engine imports torch and timm."""
    made: dict[int, Engine] = {}
    with ExitStack() as stack:

        def get(workers: int) -> Engine:
            if workers not in made:
                made[workers] = stack.enter_context(make_engine("local", workers=workers))
            return made[workers]

        yield get


@pytest.fixture
def shared_engine(local_engines: Callable[[int], Engine]) -> Iterator[Callable[[str, int], Engine]]:
    """Return an engine by kind and number of workers; a Dask cluster is new for each test.

    A cluster has connections in this process. Tests that fork it could take their messages.
    """
    with ExitStack() as stack:

        def get(kind: str, workers: int) -> Engine:
            if kind == "local":
                return local_engines(workers)
            return stack.enter_context(make_engine(kind, workers=workers))

        yield get


@pytest.fixture(scope="session")
def load_tool() -> Callable[[str], ModuleType]:
    """A script of the folder `tools`, by its name, as a module."""

    def load(name: str) -> ModuleType:
        spec = spec_from_file_location(name, Path(__file__).parents[1] / "tools" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def golden_data() -> Path:
    """The folder of real data that is not in the repository."""
    folder = os.environ.get("UNSEEN_GOLDEN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("UNSEEN_GOLDEN_DATA is not set to a folder: real data is not there to compare with")
    return Path(folder)


def draw_image(label: int, number: int, size: int = 48) -> Image.Image:
    """A picture that a colour-blind model could tell from other classes: stripes whose pitch is the class."""
    rng = np.random.default_rng(1000 * label + number)
    wave = np.sin(np.arange(size) / (1.0 + label) + rng.uniform(0, 0.6))
    picture = np.stack(
        [np.outer(np.ones(size), wave), np.outer(wave, np.ones(size)), rng.normal(0, 0.2, (size, size))], 2
    )
    return Image.fromarray(np.uint8(np.clip(127 + 90 * picture, 0, 255)))


@pytest.fixture(scope="session")
def make_folder() -> Callable[..., Path]:
    """Writes a labelled folder: `make_folder(path, classes=3, per_class=8)`."""

    def make(path: Path, *, classes: int = 3, per_class: int = 8) -> Path:
        for label in range(classes):
            (path / f"class{label}").mkdir(parents=True, exist_ok=True)
            for number in range(per_class):
                draw_image(label, number).save(path / f"class{label}" / f"{number:03d}.png")
        return path

    return make


@pytest.fixture
def images(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    """A folder of 3 classes with 8 images each."""
    return make_folder(tmp_path / "images")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own."""
    monkeypatch.setenv("UNSEEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
