"""Extracts features while system calls fail, one after the other; run with the library of failing_calls.c preloaded.

For every call on a file of the images or of the store: fail it once, or from then on for good, and see that what comes
out is the right features or an error of ours, never a complete entry that lacks a row; then run again undisturbed.

    LD_PRELOAD=failing_calls.so python failing_extraction.py FOLDER
"""

from __future__ import annotations

import ctypes
import errno
import json
import shutil
import sys
from pathlib import Path

from unseen.backbones import load_backbone
from unseen.core import guard
from unseen.core.errors import UnseenError
from unseen.data import load_dataset
from unseen.features import Extraction, FeatureStore, extract

FOR_GOOD = 1_000_000
CODES = (errno.EIO, errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.ESTALE)

library = ctypes.CDLL(None)
library.failing_set.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]
library.failing_seen.restype = ctypes.c_long


def files(store: Path) -> dict[str, bytes]:
    """Every file of a store that must not depend on how it came about."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != "provenance.json" and path.suffix != ".lock"
    }


def main(folder: Path) -> None:
    guard.WAITS = (0.0, 0.0, 0.0)
    backbone = load_backbone("random:test_resnet?size=32")
    how = Extraction(part_size=3, workers=1, runtime="torch")

    def run(store: Path) -> None:
        # The dataset is listed and fingerprinted anew each time: those calls may fail as well.
        extract(backbone, load_dataset(f"folder:{folder / 'images'}"), "train", FeatureStore(store), how=how)

    run(folder / "whole")
    whole = files(folder / "whole")
    library.failing_set(str(folder).encode(), -1, 0, 0)
    run(folder / "counted")
    calls = library.failing_seen()
    outcomes = {"calls": calls, "tries": 0, "errors": 0, "foreign": [], "wrong": [], "not_resumed": []}
    store = folder / "store"
    for number, code in enumerate(CODES):
        for at in range(number, calls, 1 if code == errno.EIO else 5):
            for times in (1, FOR_GOOD):
                shutil.rmtree(store, ignore_errors=True)
                library.failing_set(str(folder).encode(), at, times, code)
                name = f"{errno.errorcode[code]} at call {at}, {'once' if times == 1 else 'for good'}"
                outcomes["tries"] += 1
                try:
                    run(store)
                except UnseenError:
                    outcomes["errors"] += 1
                except Exception as error:  # noqa: BLE001 - that is what is looked for
                    outcomes["foreign"].append(f"{name}: {type(error).__name__}: {error}")
                finally:
                    library.failing_set(b"", -1, 0, 0)
                complete = [
                    entry for entry in FeatureStore(store).entries() if entry.manifest and entry.manifest.complete
                ]
                if complete and files(store) != whole:
                    outcomes["wrong"].append(name)
                run(store)
                if files(store) != whole:
                    outcomes["not_resumed"].append(name)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
