"""The environment that is stored with a result."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version

from unseen.results import capture_environment


def test_versions_and_machine() -> None:
    found = capture_environment()
    assert found["python"] == platform.python_version()
    for package in ("unseen", "torch", "onnxruntime", "numpy"):
        assert found[package] == version(package)
    assert int(found["cpus"]) >= 1
    assert found["cpu"]
    assert platform.machine() in found["platform"]
    assert all(isinstance(value, str) for value in found.values())


def test_no_host_or_user_name() -> None:
    assert "node" not in capture_environment()
    assert "host" not in capture_environment()


def test_a_change_of_the_answer_does_not_stick() -> None:
    capture_environment()["python"] = "changed"
    assert capture_environment()["python"] == platform.python_version()


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from unseen.results import capture_environment; capture_environment(); "
        "print(sorted({'torch', 'onnxruntime', 'numpy', 'pyarrow', 'altair', 'pandas'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
