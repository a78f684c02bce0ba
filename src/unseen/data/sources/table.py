"""`csv:FILE` (or a plain path to a .csv or .tsv) and `parquet:FILE`: a table with an image and a label per row.

Options: `image=COLUMN`, `label=COLUMN` where their names do not tell (Kaggle's do: image_id, label ...); `split=COLUMN`
of train, val and test; else `test=` and `val=` are shares, or other tables; `root=FOLDER` holds the images; `target=`,
`pick=` and `bins=` as in `unseen.data.columns`; `seed=`. What was guessed stands in the card's notes. Without a label
column, columns of 0 and 1 are classes, or several labels per image.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, UsageError
from unseen.core.extras import import_extra
from unseen.core.guard import guarded
from unseen.core.names import Name, Options, as_number
from unseen.data.adapters import IMAGE_COLUMNS, LABEL_COLUMNS, encoded_sampling_keys, guess_column
from unseen.data.columns import one_hot_labels, read_labels
from unseen.data.dataset import CLASS, Dataset
from unseen.data.images import content_key, image_extensions
from unseen.data.layout import splits_by_name
from unseen.data.load import DatasetSource
from unseen.data.user_data import LabelledImages, below_common_folder, divide

Columns = dict[str, list[Any]]
_FOLDERS = ("", "images", "train", "train_images", "img", "imgs", "data", "test", "test_images")
_MOST_CELL = 1 << 20


class CsvSource(DatasetSource):
    """Loads `csv:FILE`."""

    pattern, hint = (
        "csv:FILE",
        "a table of image and label per row, such as Kaggle's; the path alone does too: labels.csv",
    )
    paths = ("", "root", "test", "val")

    def load(self, name: str, options: Options) -> Dataset:
        with guarded(name, "a table of images"):
            return self._load(name, options)

    def _load(self, name: str, options: Options) -> Dataset:
        path = Path(name).expanduser()
        if not name or not path.is_file():
            raise DataError(f"there is no table {str(path)!r}.")
        parts = {"train": self.read(path)}
        shares: dict[str, float] = {}
        for split in ("test", "val"):
            given = options.text(split)
            if given is not None and as_number(given) is None:
                parts[split] = self.read(Path(given).expanduser())
            elif given is not None:
                shares[split] = options.fraction(split) or 0.0
        if (column := options.text("split")) is not None:
            parts = _by_split(parts["train"], column)
        root, seed = options.text("root"), options.integer("seed") or 0
        image, label = options.text("image"), options.text("label")
        where = Name.parse(options.dataset)
        own = str(Name(where.scheme, where.rest, {k: v for k, v in where.options.items() if k in ("root", "image")}))
        given_images = {
            split: _images(columns, path, options, root, image, label, f"{own}#{split}" if len(parts) > 1 else own)
            for split, columns in parts.items()
        }
        options.finish()
        share = shares.get("test", 0.2)
        return divide(given_images, share=share, val=shares.get("val", 0.0), seed=seed, group=where.scheme)

    def read(self, path: Path) -> Columns:
        """Read the columns of a table, by name."""
        try:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                head = stream.read(8192)
                stream.seek(0)
                first = head.partition("\n")[0]
                comma = max(",\t;|", key=first.count)
                rows = [row for row in csv.reader(stream, delimiter=comma) if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"cannot read {str(path)!r} as a table: {error}.") from error
        if len(rows) < 2:
            raise DataError(f"{str(path)!r} has no rows below its header.")
        header = [cell.strip() for cell in rows[0]]
        if _is_image_name(header[0]):  # no header at all: its first row is an image
            header, rows = (["image", "label", *header[2:]] if len(header) > 1 else ["image"]), [[], *rows]
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
        pyarrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
        try:
            table = parquet.read_table(path)
            return {name: table.column(name).to_pylist() for name in table.column_names}
        except (OSError, pyarrow.ArrowException) as error:
            first = (str(error).strip().splitlines() or ["damaged"])[0]
            raise DataError(f"cannot read {str(path)!r} as Parquet: {first}") from error


def _by_split(columns: Columns, column: str) -> dict[str, Columns]:
    if column not in columns:
        raise DataError(f"the table has no column {column!r}. It has {', '.join(columns)}.")
    words = [str(word).strip().lower() for word in columns[column]]
    named = {word: split for split, word in splits_by_name(dict.fromkeys(words), f"column {column!r}").items()}
    if strange := sorted(set(words) - set(named)):
        raise DataError(f"column {column!r} holds {strange[0]!r}; train, val and test are known.")
    rows: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        rows.setdefault(named[word], []).append(i)
    return {split: {k: [v[i] for i in own] for k, v in columns.items()} for split, own in rows.items()}


def _images(
    columns: Columns, table: Path, options: Options, root: str | None, image: str | None, label: str | None, own: str
) -> LabelledImages:
    names = list(columns)
    notes = []
    for column in (image, label):
        if column is not None and column not in columns:
            raise UsageError(f"{table.name} has no column {column!r}. It has {', '.join(names)}.")
    if image is None:
        image = guess_column(names, IMAGE_COLUMNS, "images")
        notes.append(f"images are those of column {image!r}")
    found = one_hot_labels(columns, image) if label is None else None
    if found is not None and found[0] != CLASS and _has_label_column(names, image):
        found = None
    if found is not None:
        target, labels = found
        options.choice("target", (target,))
        what = "classes are" if target == CLASS else "every image may have several labels:"
        notes.append(f"{what} the {len(names) - 1} columns of 0 and 1")
    else:
        if label is None:
            label = guess_column(names, LABEL_COLUMNS, "labels", taken=image)
            notes.append(f"labels are those of column {label!r}")
        target, labels, said = read_labels(columns[label], options, label)
        notes += [said] if said else []
    cells = columns[image]
    if cells and not isinstance(cells[0], str):
        items: list[Any] = [cell if isinstance(cell, bytes | dict) else bytes(cell or b"") for cell in cells]
        files = [cell.get("path") if isinstance(cell, dict) else None for cell in items]
        by = encoded_sampling_keys(files, labels, None)
        return LabelledImages(
            items, labels, sampling_keys=by, title=table.stem, notes=tuple(notes), id=own, target=target
        )
    folder, ending = _find_root([str(cell) for cell in cells], table, root)
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
        title=table.stem,
        notes=tuple(notes),
        keys=lambda i: content_key(paths[i]),
        id=own,
        target=target,
    )


def _has_label_column(names: Sequence[str], image: str) -> bool:
    with suppress(DataError):
        return bool(guess_column(names, LABEL_COLUMNS, "labels", taken=image))
    return False


def _find_root(cells: Sequence[str], table: Path, root: str | None) -> tuple[Path, str]:
    """Return the folder that names are relative to, and an ending that they lack, from the first image."""
    bases = [Path(root).expanduser()] if root is not None else [table.parent / folder for folder in _FOLDERS]
    endings = ["", *sorted(image_extensions(), key=lambda e: (e not in (".jpg", ".png", ".jpeg"), e))]
    first = _inside(cells[0])
    for base in bases:
        if not base.is_dir():
            continue
        there = {entry.name for entry in (base / first).parent.iterdir()} if (base / first).parent.is_dir() else set()
        for ending in endings:
            if Path(first).name + ending in there and (base / (first + ending)).is_file():
                return base, ending
    looked = ", ".join(str(base) for base in bases if base.is_dir())
    raise DataError(f"{table.name}: its first image {cells[0]!r} is not in {looked}. Give root=FOLDER.")


def _inside(text: str) -> str:
    """Return a path of a table; raise if it is absolute or leads out of the folder."""
    path = Path(text.strip())
    if path.is_absolute() or ".." in path.parts or len(text) > _MOST_CELL:
        raise DataError(f"the image {text[:80]!r} lies outside the folder of the table. Paths are relative to root=.")
    return path.as_posix()


def _is_image_name(cell: str) -> bool:
    return Path(cell).suffix.lower() in image_extensions()
