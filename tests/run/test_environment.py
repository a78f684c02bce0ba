"""The environment that is stored with a result."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from unseen.core.extras import _commit, capture_environment


def test_versions_and_machine() -> None:
    found = capture_environment()
    assert found["python"] == platform.python_version()
    for package in ("torch", "onnxruntime", "numpy"):
        assert found[package] == version(package)
    assert found["unseen"].partition("+")[0] == version("unseen")
    assert int(found["cpus"]) >= 1
    assert found["cpu"]
    assert platform.machine() in found["platform"]
    assert all(isinstance(value, str) for value in found.values())


def test_a_checkout_has_its_commit_and_an_installed_package_has_none(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "src" / "unseen").mkdir(parents=True)
    assert _commit(root) == "", "no repository"
    (root / ".git").mkdir()
    assert _commit(root) == "", "a broken repository is not a failure"
    (root / ".git").rmdir()
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    (root / "src" / "unseen" / "a.py").write_text("a = 1\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert _commit(root) == commit[:12]
    (root / "src" / "unseen" / "a.py").write_text("a = 2\n")
    assert _commit(root) == f"{commit[:12]}-dirty"
    (root / "src").rename(root / "lib")
    assert _commit(root) == "", "a repository of another project"


def test_no_host_or_user_name() -> None:
    assert "node" not in capture_environment()
    assert "host" not in capture_environment()


def test_a_change_of_the_answer_does_not_stick() -> None:
    capture_environment()["python"] = "changed"
    assert capture_environment()["python"] == platform.python_version()


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from unseen.core.extras import capture_environment; capture_environment(); "
        "print(sorted({'torch', 'onnxruntime', 'numpy', 'pyarrow', 'altair', 'pandas'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
