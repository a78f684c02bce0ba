"""Copy the valid results of a damaged database into a new one.

The file is read page by page, without the help of SQLite: a missing header, a zeroed schema version, a lost index or
pages that were overwritten do not hide the rows of the other pages. Rows are recognised by their shape, and their
digests show which of them are whole. The format is that of https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unseen.core.errors import StoreError
from unseen.core.files import sync_folder
from unseen.results.connection import close, connect_for_writing, explained, prepare, transaction
from unseen.results.rows import COLUMNS, NESTED, Fields, RowReader, insert, references

Record = list[Any]
_MAGIC = b"SQLite format 3\0"
#: Bytes of a page, which SQLite chooses for a new file.
_PAGE = 4096
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
#: Bytes of a column by its type; from 12 on, texts and bytes state their length.
_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
#: Columns of the table of results in the order in which versions have added them.
_STORED = (
    *("id", "study", "cell", "benchmark", "model", "dataset", "parameters", "revision", "error", "seconds"),
    *("sweep", "details", "environment", "recorded", "version", "record", "digest"),
)
_FIRST_VERSION = 14
_DEFAULTS = {"version": "", "record": "{}", "digest": ""}
_LARGEST = 1 << 30


@dataclass(frozen=True)
class Repair:
    """What `repair` did.

    Attributes:
        kept: number of results in the new database.
        lost: what is wrong with results that were found and not copied, by id.
        backup: path of the damaged file.
    """

    kept: int
    lost: Mapping[int, str]
    backup: Path


@dataclass
class Found:
    """Rows of a damaged file: results and metrics by their ids, shared values by their digests."""

    results: dict[int, list[Fields]] = field(default_factory=dict)
    metrics: dict[int, dict[int, tuple[str, Any]]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)

    def add(self, key: int, record: Record) -> None:
        """Add a record, recognised by its shape."""
        kinds = [type(value) for value in record]
        if key > 0 and _FIRST_VERSION <= len(record) <= len(_STORED) and record[0] is None and kinds[1:9] == [str] * 8:
            row = _DEFAULTS | dict(zip(_STORED, record, strict=False)) | {"id": key}
            self.results.setdefault(key, []).append(row)
        elif key > 0 and len(record) == 4 and kinds[:3] == [type(None), int, str]:
            self.metrics.setdefault(record[1], {}).setdefault(key, (record[2], record[3]))
        elif key == 0 and kinds == [str, str] and hashlib.sha256(record[1].encode()).hexdigest()[:32] == record[0]:
            self.shared[record[0]] = record[1]


def repair(path: Path) -> Repair:
    """Replace a damaged database by a new one with all its valid results; keep the damaged file under another name.

    Raises:
        StoreError: the file cannot be read, or has no result.
    """
    if not path.is_file():
        raise StoreError(f"there is no results database at {path}.")
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    backup = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    with explained(path, "repair"), tempfile.TemporaryDirectory(dir=path.parent, prefix=".repair-") as folder:
        found = recover(_settled_copy(path, Path(folder)))
        if not found.results:
            raise StoreError(f"no result can be read from {path}. It was not changed.")
        new = Path(folder) / "new.sqlite"
        lost = _write(found, new)
        for end in ("-wal", "-shm", "-journal", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(backup.with_name(backup.name + end))
        new.rename(path)
        sync_folder(path.parent)
    return Repair(len(found.results) - len(lost), lost, backup)


def _settled_copy(path: Path, folder: Path) -> Path:
    """Return a copy of the file in which SQLite, if it can open it, has finished what a killed process left."""
    copy = folder / "damaged.sqlite"
    for end in ("", "-wal", "-journal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(path.with_name(path.name + end), copy.with_name(copy.name + end))
    with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return copy


def recover(path: Path) -> Found:
    """Return the rows that can be read from a file."""
    return _Pages(path.read_bytes()).scan()


class _Pages:
    """The pages of a file, and the records on them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.count = data, len(data) // _PAGE
        self.usable = _PAGE - (data[20] if data[:16] == _MAGIC else 0)

    def scan(self) -> Found:
        """Return the rows on all pages; pages that are not in use hold none, because removed rows are overwritten."""
        found = Found()
        for number in range(1, self.count + 1):
            for key, record in self._records(number):
                found.add(key, record)
        return found

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise ValueError("a page that does not exist")
        return self.data[(number - 1) * _PAGE : number * _PAGE]

    def _records(self, number: int) -> Iterator[tuple[int, Record]]:
        """Yield the records of one page with their row ids; 0 in an index. Skip what cannot be read."""
        page, start = self._page(number), 100 if number == 1 else 0
        kind = page[start]
        if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
            return
        first = start + (12 if kind == _INDEX_INTERIOR else 8)
        count = struct.unpack_from(">H", page, start + 3)[0]
        for place in range(first, min(first + 2 * count, self.usable - 1), 2):
            with suppress(ValueError, IndexError, struct.error):
                yield self._cell(page, struct.unpack_from(">H", page, place)[0], kind)

    def _cell(self, page: bytes, at: int, kind: int) -> tuple[int, Record]:
        length, at = _varint(page, at + (4 if kind == _INDEX_INTERIOR else 0))
        key, at = _varint(page, at) if kind == _TABLE_LEAF else (0, at)
        if not 0 < length < _LARGEST:
            raise ValueError("a record of an impossible length")
        most = self.usable - 35 if kind == _TABLE_LEAF else (self.usable - 12) * 64 // 255 - 23
        least = (self.usable - 12) * 32 // 255 - 23
        local = length
        if length > most:
            local = least + (length - least) % (self.usable - 4)
            local = local if local <= most else least
        payload = page[at : at + local]
        following = struct.unpack_from(">I", page, at + local)[0] if length > local else 0
        while len(payload) < length:
            overflow = self._page(following)
            following = struct.unpack_from(">I", overflow)[0]
            payload += overflow[4 : 4 + min(self.usable - 4, length - len(payload))]
        return key, _record(payload)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of one to nine bytes, and the place behind it."""
    value = 0
    for position in range(8):
        byte = data[at + position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + position + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 9


def _record(payload: bytes) -> Record:
    """Return the columns of a record."""
    end, at = _varint(payload, 0)
    place, values = end, Record()
    while at < end:
        kind, at = _varint(payload, at)
        width = (kind - 12) // 2 if kind >= 12 else _WIDTHS.get(kind, -1)
        part = payload[place : place + width]
        if len(part) != width:
            raise ValueError("a column that is not complete")
        place += width
        if kind in (0, 8, 9):
            values.append({8: 0, 9: 1}.get(kind))
        elif kind < 7:
            values.append(int.from_bytes(part, "big", signed=True))
        elif kind == 7:
            values.append(struct.unpack(">d", part)[0])
        else:
            values.append(part.decode("utf-8") if kind % 2 else part)
    return values


def _write(found: Found, path: Path) -> dict[int, str]:
    """Write the valid results to a new database; return what is wrong with the others, by id."""
    reader = RowReader(lambda digests: [(key, found.shared[key]) for key in digests if key in found.shared])
    lost: dict[int, str] = {}
    connection = connect_for_writing(path)
    try:
        prepare(connection, path, writable=True)
        with transaction(connection, path):
            for key in sorted(found.results):
                metrics = [metric for _, metric in sorted(found.metrics.get(key, {}).items())]
                for row in sorted(found.results[key], key=lambda row: not row["digest"]):
                    reader.fetch([row])
                    try:
                        reader.read(row, metrics)
                    except ValueError as error:
                        lost[key] = str(error)
                        continue
                    lost.pop(key, None)
                    shared = references([[row[name] for name in NESTED]])
                    values = {name: row[name] for name in COLUMNS}
                    insert(connection, values, metrics, {digest: found.shared[digest] for digest in shared})
                    break
    finally:
        close(connection)
    return lost
