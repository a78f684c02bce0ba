"""`csv:FILE` (or a plain path to a .csv or .tsv) and `parquet:FILE`: a table with an image and a label per row.

Options: `image=COLUMN`, `label=COLUMN` if their names are unusual (Kaggle's are known: image_id, label ...);
`split=COLUMN` of train, val and test; else `test=` and `val=` are shares, or other tables; `root=FOLDER` holds the
images; `target=`, `pick=` and `bins=` as in `unseen.data.columns`; `seed=`; `group=COLUMN`, such as the video or the
patient of an image: no split or fold divides a group. The card's notes state what was guessed.
Without a label column, columns of 0 and 1 are classes, or several labels per image. A file without a header, such as
lists of 'path label' lines, has the image first and the label last: `csv:train.txt?test=test.txt&root=photos`.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from unseen.core.errors import DataError, UsageError
from unseen.core.extras import import_extra
from unseen.core.guard import guarded
from unseen.core.isolate import try_reader
from unseen.core.names import Name, Options
from unseen.data.adapters import IMAGE_COLUMNS, LABEL_COLUMNS, encoded_sampling_keys, find_column, guess_column
from unseen.data.columns import one_hot_labels, read_labels
from unseen.data.dataset import CLASS, Dataset, locator
from unseen.data.images import content_key, image_extensions
from unseen.data.layout import splits_by_name
from unseen.data.load import DatasetSource
from unseen.data.subset import Division
from unseen.data.user_data import LabelledImages, LazyImages, below_common_folder, divide

Cells = Sequence[object]
Columns = dict[str, Cells]
_FOLDERS = ("", "images", "train", "train_images", "img", "imgs", "data", "test", "test_images")
_MOST_CELL = 1 << 20
#: Bytes of row groups that are kept in memory.
_CACHE_BYTES = 256 << 20


class CsvSource(DatasetSource):
    """Loads `csv:FILE`."""

    pattern = "csv:FILE"
    hint = "a table of image and label per row, such as Kaggle's; the path alone does too: labels.csv"
    paths = ("", "root", "test", "val")

    def load(self, name: str, options: Options) -> Dataset:
        with guarded(name, "a table of images"):
            return self._load(Path(name).expanduser(), options)

    def _load(self, path: Path, options: Options) -> Dataset:
        division, tables = Division.read(options, files=True)
        parts = {"train": self.read(path)}
        parts |= {split: self.read(Path(other).expanduser()) for split, other in tables.items()}
        if (column := options.text("split")) is not None:
            parts = _by_split(parts["train"], column)
        where = Name.parse(options.dataset)
        own = replace(where, options={k: v for k, v in where.options.items() if k in ("root", "image")})
        images = {}
        for split, columns in parts.items():
            found = _images(columns, path, options)
            images[split] = replace(found, id=f"{own}#{split}" if len(parts) > 1 else str(own), title=path.stem)
        options.finish()
        return divide(images, division, group=where.scheme)

    def read(self, path: Path) -> Columns:
        """Read the columns of a table, by name."""
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline(8192)
            comma = max(",\t;|", key=first.count)
            stream.seek(0)
            if comma in first:
                rows = [row for row in csv.reader(stream, delimiter=comma) if row]
            else:  # lines of 'path label'
                rows = [words for line in stream if (words := line.rsplit(maxsplit=1))]
        header = [cell.strip() for cell in rows[0]] if rows else [""]
        if Path(header[0]).suffix.lower() in image_extensions():  # no header: its first row is an image
            header, rows = (["image", "label", *header[2:]] if len(header) > 1 else ["image"]), [[], *rows]
        if len(rows) < 2:
            raise DataError(f"{str(path)!r} has no rows below its header.")
        if len(set(header)) != len(header):
            raise DataError(f"{str(path)!r} has a column twice: {', '.join(header)}.")
        if short := next((n for n, row in enumerate(rows[1:], 2) if len(row) != len(header)), None):
            raise DataError(f"{str(path)!r}, line {short}: {len(rows[short - 1])} cells, the header has {len(header)}.")
        return {name: [row[i] for row in rows[1:]] for i, name in enumerate(header)}


class ParquetSource(CsvSource):
    """Loads `parquet:FILE`: paths, or images themselves as bytes, as Hugging Face stores them."""

    pattern, hint = "parquet:FILE", "a Parquet table of image (path or bytes) and label per row"
    extra = "parquet"

    def read(self, path: Path) -> Columns:
        import_extra("pyarrow.parquet", "parquet")
        try_reader(f"{__name__}:check_parquet", path, kind="a Parquet table", module="pyarrow.parquet")
        return _ParquetFile(path).columns()


class _ParquetFile:
    """A Parquet file that is read by row group and column.

    Texts and bytes stay encoded by their dictionary, so that a value that many rows share is one object.
    """

    def __init__(self, path: Path) -> None:
        parquet = import_extra("pyarrow.parquet", "parquet")
        plain = parquet.ParquetFile(path)
        leaves = [plain.schema.column(i) for i in range(len(plain.schema))]
        shared = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and not leaf.max_repetition_level]
        self._path, self._file, self._lock = path, parquet.ParquetFile(path, read_dictionary=shared), Lock()
        groups = [self._file.metadata.row_group(i) for i in range(self._file.num_row_groups)]
        self._locate, self._total = locator(group.num_rows for group in groups), sum(group.num_rows for group in groups)
        # Every row has an image, hence some bytes.
        if self._total != self._file.metadata.num_rows or not 0 < self._total <= path.stat().st_size:
            raise DataError(f"{str(path)!r} states {self._file.metadata.num_rows:,} rows, which it cannot hold.")
        largest = max(group.total_byte_size for group in groups)
        self._cached = lru_cache(maxsize=max(1, min(64, _CACHE_BYTES // max(largest, 1))))(self._read)

    def columns(self) -> Columns:
        return {name: _ParquetColumn(self, name, range(self._total)) for name in self._file.schema_arrow.names}

    def cell(self, column: str, row: int) -> object:
        group, place = self._locate(row)
        with self._lock:
            return self._cached(column, group)[place]

    def _read(self, column: str, group: int) -> list[object]:
        with guarded(repr(str(self._path)), "a Parquet table"):
            found = self._file.read_row_group(group, columns=[column], use_threads=False).column(0)
            found.validate(full=True)
            return [cell for chunk in found.chunks for cell in _cells(chunk)]


@dataclass(frozen=True)
class _ParquetColumn(Cells):
    """Rows of a column."""

    file: _ParquetFile
    name: str
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return self.file.cell(self.name, self.rows[i])


def _cells(array: Any) -> list[object]:
    """Return the values of an Arrow array; equal values of a dictionary are one object."""
    if hasattr(array, "dictionary"):
        values = array.dictionary.to_pylist()
        return [None if i is None else values[i] for i in array.indices.to_pylist()]
    if hasattr(array, "flatten") and hasattr(array.type, "names"):  # a structure
        parts = [_cells(part) for part in array.flatten()]
        return [dict(zip(array.type.names, row, strict=True)) for row in zip(*parts, strict=True)]
    return list(array.to_pylist())


def check_parquet(path: str) -> None:
    """Read every cell of a Parquet file once."""
    for column in _ParquetFile(Path(path)).columns().values():
        deque(column, maxlen=0)


def _by_split(columns: Columns, column: str) -> dict[str, Columns]:
    if column not in columns:
        raise DataError(f"the table has no column {column!r}. It has {', '.join(columns)}.")
    words = [str(word).strip().lower() for word in columns[column]]
    named = {word: split for split, word in splits_by_name(dict.fromkeys(words), f"column {column!r}").items()}
    if strange := sorted(set(words) - set(named)):
        raise DataError(f"column {column!r} holds {strange[0]!r}; train, val and test are known.")
    rows = {split: [i for i, word in enumerate(words) if named[word] == split] for split in named.values()}
    return {split: {k: _take(v, own) for k, v in columns.items()} for split, own in rows.items()}


def _take(column: Cells, rows: Sequence[int]) -> Cells:
    if isinstance(column, _ParquetColumn):
        return _ParquetColumn(column.file, column.name, [column.rows[i] for i in rows])
    return [column[i] for i in rows]


def _images(columns: Columns, table: Path, options: Options) -> LabelledImages:
    names, notes = list(columns), []
    image, label, group = options.text("image"), options.text("label"), options.text("group")
    for column in (image, label, group):
        if column is not None and column not in columns:
            raise UsageError(f"{table.name} has no column {column!r}. It has {', '.join(names)}.")
    if image is None:
        image = guess_column(names, IMAGE_COLUMNS, "images")
        notes.append(f"images are those of column {image!r}")
    found = one_hot_labels(columns, image) if label is None else None
    if found is not None and (found[0] == CLASS or not find_column(names, LABEL_COLUMNS, taken=image)):
        target, labels = found
        options.choice("target", (target,))
        what = "classes are" if target == CLASS else "every image may have several labels:"
        notes.append(f"{what} the {len(names) - 1} columns of 0 and 1")
    else:
        if label is None:
            label = guess_column(names, LABEL_COLUMNS, "labels", taken=image)
            notes.append(f"labels are those of column {label!r}")
        target, labels, note = read_labels(columns[label], options, label)
        notes += [note] if note else []
    groups = None if group is None else columns[group]
    cells = columns[image]
    if cells and not isinstance(cells[0], str):
        files = [cell.get("path") if isinstance(cell, dict) else None for cell in cells]
        keys = encoded_sampling_keys(files, labels, None)
        items = LazyImages(len(cells), lambda i: _encoded(cells[i]))
        return LabelledImages(items, labels, sampling_keys=keys, notes=tuple(notes), target=target, groups=groups)
    root = options.text("root")
    folder, ending = _find_root(str(cells[0]), table, root)
    if root is None and folder != table.parent:
        notes.append(f"they lie in {folder.name}/")
    if ending:
        notes.append(f"their names end in {ending}")
    relative = [_inside(str(cell) + ending) for cell in cells]
    paths = [folder / each for each in relative]
    return LabelledImages(
        paths,
        labels,
        names=relative,
        sampling_keys=below_common_folder(relative),
        notes=tuple(notes),
        keys=lambda i: content_key(paths[i]),
        target=target,
        groups=groups,
    )


def _encoded(cell: object) -> object:
    """Return a cell as the bytes of an image, or as a dict of bytes and path."""
    return cell if isinstance(cell, bytes | dict) else bytes(cell) if isinstance(cell, list) else b""


def _find_root(first: str, table: Path, root: str | None) -> tuple[Path, str]:
    """Return the folder that names are relative to, and an ending that they lack, from the first image."""
    bases = [Path(root).expanduser()] if root is not None else [table.parent / folder for folder in _FOLDERS]
    endings = ["", *sorted(image_extensions(), key=lambda e: (e not in (".jpg", ".png", ".jpeg"), e))]
    name = _inside(first)
    for base in bases:
        for ending in endings if (base / name).parent.is_dir() else ():
            if (base / (name + ending)).is_file():
                return base, ending
    looked = ", ".join(str(base) for base in bases if base.is_dir())
    raise DataError(f"{table.name}: its first image {first!r} is not in {looked}. Give root=FOLDER.")


def _inside(text: str) -> str:
    """Return a path of a table; raise if it is absolute or leads out of the folder."""
    path = Path(text.strip())
    if path.is_absolute() or ".." in path.parts or len(text) > _MOST_CELL:
        raise DataError(f"the image {text[:80]!r} lies outside the folder of the table. Paths are relative to root=.")
    return path.as_posix()
