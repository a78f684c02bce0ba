"""What a run leaves behind: modes that the umask gives, no secrets; and dependencies without known flaws."""

from __future__ import annotations

import getpass
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.audit import flaws
from tools.indexes import BEGIN, INDEXES, render

KNOWN = {"torch": {"from": "2.6.0", "flaw": "CVE-1"}, "pillow": {"from": "10.3.0", "flaw": "CVE-2"}}
RUN = """
    import os, sys
    from pathlib import Path
    os.umask(int(sys.argv[2], 8))
    from unseen import Study, run_study
    benchmarks = {"probe": {"seeds": [1], "shots": ["all"]}}
    study = Study("s", ("random:test_resnet?size=32",), ("packaged:emoji?classes=2",), benchmarks)
    run_study(study, Path(sys.argv[1]))
"""


def test_old_packages_and_requirements_are_named() -> None:
    assert flaws({"torch": "2.6.1", "pillow": "11.0"}, ["torch>=2.6,<3", "numpy"], KNOWN) == []
    assert [line.split(" is ")[0] for line in flaws({"torch": "2.5.1"}, [], KNOWN)] == ["torch 2.5.1"]
    assert flaws({}, ["torch>=2.4"], KNOWN) == ["pyproject.toml allows 'torch>=2.4'; 2.6.0 is the first without CVE-1."]
    assert len(flaws({}, ["pillow", "Pillow<12"], KNOWN)) == 2


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("umask", "file", "folder"), [("077", 0o600, 0o700), ("002", 0o664, 0o775)])
def test_a_home_has_the_modes_of_the_umask_and_no_secrets(umask: str, file: int, folder: int, tmp_path: Path) -> None:
    environment = {**os.environ, "HF_TOKEN": "hf_secret", "AWS_SECRET_ACCESS_KEY": "aws_secret"}
    command = [sys.executable, "-c", textwrap.dedent(RUN), str(tmp_path / "home"), umask]
    subprocess.run(command, check=True, env=environment)
    found = sorted((tmp_path / "home").rglob("*"))
    assert any(path.name.endswith(".sqlite") for path in found)
    assert any(path.name == "manifest.json" for path in found)
    modes = {str(path): oct(path.stat().st_mode & 0o777) for path in found}
    assert modes == {str(path): oct(folder if path.is_dir() else file) for path in found}
    kept = b"".join(path.read_bytes() for path in found if path.is_file())
    names = [name for name in (platform.node(), getpass.getuser()) if len(name) > 5]
    for secret in ("hf_secret", "aws_secret", *names):
        assert secret.encode() not in kept


def test_generated_indexes_are_current() -> None:
    """`tools/indexes.py` writes them; lines per package may lag behind by a few percent."""
    for path in INDEXES:
        shown, made = (text.partition(BEGIN)[2] for text in (path.read_text(encoding="utf-8"), render(path)))
        names = [[line.split("|")[1] for line in text.splitlines() if line.startswith("|")] for text in (shown, made)]
        assert names[0] == names[1], f"{path.name} is outdated: run python -m tools.indexes"


def test_long_files_are_dealt_evenly_to_the_workers(request: pytest.FixtureRequest) -> None:
    """Each worker starts with its long files, and gets as many tests as `--dist worksteal` sends to it."""
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).parent / "conftest.py"))
    tests = {"a.py": 8, "b.py": 4, "c.py": 1, "d.py": 5}
    names = [f"{name}::{number}" for name, count in tests.items() for number in range(count)]
    items = [SimpleNamespace(nodeid=name) for name in names]
    dealt = [item.nodeid for item in conftest.deal(items, {"b.py": 60.0, "c.py": 70.0, "d.py": 20.0}, 2)]
    assert sorted(dealt) == sorted(names)
    assert [dealt[0], dealt[9], dealt[13]] == ["c.py::0", "b.py::0", "d.py::0"]
