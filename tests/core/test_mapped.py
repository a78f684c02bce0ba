"""Pages of memory maps: given back where they can be read again, left alone where they cannot."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from unseen.core.files import release_pages

STATUS = Path("/proc/self/status")


def resident_file_bytes() -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssFile"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not STATUS.exists() or not hasattr(mmap, "MADV_DONTNEED"), reason="needs Linux")
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    np.ones(8_000_000, np.float32).tofile(path)
    rows = np.memmap(path, np.float32, "r")
    before = resident_file_bytes()
    assert float(rows.sum()) == 8_000_000
    assert resident_file_bytes() > before + 24_000_000
    release_pages(rows[100:200])
    assert resident_file_bytes() < before + 4_000_000
    assert float(rows.sum()) == 8_000_000


def test_what_may_be_written_to_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    np.zeros(100_000, np.float32).tofile(path)
    private = np.memmap(path, np.float32, "c")
    private[:] = 3
    release_pages(private)
    assert (private == 3).all()


@pytest.mark.parametrize("other", [np.ones(3), [1, 2], None, b"bytes"])
def test_anything_else_is_left_alone(other: object) -> None:
    release_pages(other)
