"""Prompts: predict the class whose text description is nearest to the image.

Paper:      Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021 [P]
Shapes:     X (n, d) image features and S (c, d) class embeddings of one model with two towers
Implements: [P] section 3.1: cosine of image and text; the embedding of a class is the mean over templates of unit
            vectors, scaled to unit length again. Several descriptions of a class: the same mean, or the greatest cosine
Differs:    nothing is learnt, so images of seen classes are not used. Prompts contain class names as the dataset
            writes them; [P] curated those of its datasets by hand (`curated_names`)
Expected:   ImageNet, ViT-B/32 of [P] with the 80 templates: 63.2 top-1; not run here, its weights need the network
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from unseen.concepts import imagenet_1k
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.extras import ensure_torchvision, import_extra
from unseen.core.guard import guarded
from unseen.data.columns import read_lines
from unseen.zeroshot.embeddings import read_rows, rows_of_classes
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, unit_rows

if TYPE_CHECKING:
    from unseen.backbones.backbone import TextTower
    from unseen.data import Dataset

#: The template of `plain`, which does not need open_clip.
PLAIN = ("a photo of a {}.",)
_BENCHMARK = "clip_benchmark:"
_BATCH = 256
_TEXTS = 16384  # whose vectors are in memory at once
_SPACE = re.compile(r"\s")
_PLUS = re.compile(r"(?<=[^\W\d_])\+(?=[^\W\d_])")
_NUMBERED = re.compile(r"^\d+\.(?=[^\W\d])")


class Prompt(ZeroShotMethod, key="prompt"):
    """Cosine between the features of an image and the text features of a class."""

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        _check_space(X, S)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return prompt_scores(X, S)


def prompt_scores(X: FloatArray, S: FloatArray) -> FloatArray:
    """Return (n, c) cosines of features X (n, d) and class embeddings S (c, d); for S (c, k d) the greatest of k."""
    _check_space(X, S)
    images = unit_rows(np.asarray(X, np.float64))
    tables = (S[:, i : i + X.shape[1]] for i in range(0, S.shape[1], X.shape[1]))
    return reduce(np.maximum, (images @ unit_rows(np.asarray(table, np.float64)).T for table in tables))


def prompt_embeddings(
    tower: TextTower,
    classes: Sequence[str],
    templates: Sequence[str],
    *,
    descriptions: Sequence[Sequence[str]] = (),
    combine: str = "mean",
) -> FloatArray:
    """Return class embeddings from texts.

    Args:
        tower: from texts to vectors.
        classes: names, which `prompt_names` puts into words.
        templates: texts with `{}` where the name goes.
        descriptions: texts per class in place of templates.
        combine: "mean" returns (c, d), the mean of the unit vectors of a class, of unit length; "max" returns
            (c, k d), all k unit vectors of a class side by side, of which `prompt_scores` takes the greatest cosine.
    """
    texts = class_texts(classes, templates, descriptions)
    most = max(map(len, texts))
    classes_at_once, parts = max(1, _TEXTS // most), []
    for start in range(0, len(texts), classes_at_once):
        own = texts[start : start + classes_at_once]
        flat = [text for each in own for text in each]
        found = [np.asarray(tower(flat[i : i + _BATCH]), np.float64) for i in range(0, len(flat), _BATCH)]
        vectors = np.split(unit_rows(np.concatenate(found)), np.cumsum([len(each) for each in own])[:-1])
        if combine == "mean":
            parts.append(unit_rows(np.stack([each.mean(0) for each in vectors])))
        else:  # a class of fewer texts repeats its last, which changes no maximum
            rows = [np.pad(each, ((0, most - len(each)), (0, 0)), "edge").ravel() for each in vectors]
            parts.append(np.stack(rows))
    return np.concatenate(parts)


def class_texts(
    classes: Sequence[str], templates: Sequence[str], descriptions: Sequence[Sequence[str]] = ()
) -> list[list[str]]:
    """Return the texts of each class: its descriptions, `{}` replaced by the name, or else the templates."""
    own = descriptions or [templates] * len(classes)
    return [[text.replace("{}", name) for text in each] for name, each in zip(prompt_names(classes), own, strict=True)]


def prompt_names(classes: Sequence[str]) -> list[str]:
    """Return the words that stand for each class in a prompt: the class name as the dataset writes it.

    Only a name without white space is read as an identifier of a folder: `_`, and `+` between two letters, become
    spaces (`red_fox`, `blue+whale`). If every class has a different number and a dot in front (`002.Laysan_Albatross`),
    these are removed.
    """
    names = [unicodedata.normalize("NFC", name).strip() for name in classes]
    numbers = [_NUMBERED.match(name) for name in names]
    if len({found[0] for found in numbers if found}) == len(names) > 1:
        names = [_NUMBERED.sub("", name) for name in names]
    worded = (" ".join(_PLUS.sub(" ", name).replace("_", " ").split()) for name in names)
    return [name if _SPACE.search(name) else words or name for name, words in zip(names, worded, strict=True)]


def shared_prompts(classes: Sequence[str], descriptions: Sequence[Sequence[str]] = ()) -> dict[str, list[str]]:
    """Return the classes that have the same texts, by the first of them; no prompt can distinguish them."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, texts in zip(classes, class_texts(classes, ("{}",), descriptions), strict=True):
        found.setdefault(tuple(texts), []).append(name)
    return {texts[0]: names for texts, names in found.items() if len(names) > 1}


def curated_names(source: str, dataset: Dataset) -> list[str]:
    """Return the names that prompts contain.

    Args:
        source: "dataset" returns the class names; "open_clip" its names of ImageNet-1K classes, by WordNet id, and the
            class names of others; "clip_benchmark:NAME" the names of its dataset, by class number; a file has one name
            per line, in the order of the classes.

    Raises:
        UsageError: an unknown source.
        DataError: names that do not fit the classes.
        MissingExtraError: open_clip or clip_benchmark is not installed.
    """
    classes, wnids = list(dataset.class_names), dataset.wnids
    if source == "dataset":
        return classes
    if source == "open_clip":
        table = dict(zip(imagenet_1k(), _open_clip().IMAGENET_CLASSNAMES, strict=True))
        if not any(wnid in table for wnid in wnids):
            raise DataError("open_clip has names of ImageNet-1K classes; no class of the dataset has the id of one.")
        return [str(table.get(wnid or "", name)) for name, wnid in zip(classes, wnids, strict=True)]
    if source.startswith(_BENCHMARK):
        found, where = _clip_benchmark("classnames", source), source
    else:
        path = Path(source.removeprefix("file:")).expanduser()
        if not path.is_file():
            raise UsageError(f"class names {source!r} are none of dataset, open_clip, {_BENCHMARK}NAME, and no file.")
        found, where = [line for _, line in read_lines(path)], str(path)
    if len(found) != len(classes):
        raise DataError(f"{where} has {len(found)} names; the dataset has {len(classes)} classes.")
    return found


def read_descriptions(path: Path, dataset: Dataset) -> list[list[str]]:
    """Return texts per class from a file: JSON, `{"class": ["text", ...]}`, or .csv or .tsv rows of class and texts.

    Raises:
        DataError: the file is damaged, or has no text for a class.
    """
    table: dict[str, list[str]] = {}
    if path.suffix == ".json":
        with guarded(path, "descriptions"):
            for key, own in json.loads(path.read_text(encoding="utf-8-sig")).items():
                table[key] = [own] if isinstance(own, str) else list(own)
    else:
        for _, (key, *cells) in read_rows(path, "descriptions"):
            table.setdefault(key, []).extend(cells)
    texts = {
        key: [each.strip() for each in own if isinstance(each, str) and each.strip()] for key, own in table.items()
    }
    return rows_of_classes({key: own for key, own in texts.items() if own}, f"{path} has no text", dataset)


def _open_clip() -> ModuleType:
    ensure_torchvision()
    module: ModuleType = import_extra("open_clip", "clip")
    return module


def _clip_benchmark(kind: str, source: str) -> list[str]:
    """Return the English names or templates of a dataset of clip_benchmark, without importing the package."""
    name, found = source.removeprefix(_BENCHMARK), find_spec("clip_benchmark")
    if found is None or not found.submodule_search_locations:
        raise UsageError(f"{source}: clip_benchmark is not installed. Install it: pip install clip_benchmark.")
    path = Path(next(iter(found.submodule_search_locations))) / "datasets" / f"en_{kind}.json"
    with guarded(path, "the names and templates of clip_benchmark"):
        table = json.loads(path.read_text(encoding="utf-8"))
    if name not in table:
        raise UnknownNameError("dataset of clip_benchmark", name, table)
    return [str(each) for each in table[name]]


def read_templates(source: str) -> tuple[str, ...]:
    """Return templates by name, or from a file with one per line, `{}` standing for the class.

    Names: "openai", the 80 of open_clip; "simple", its 7; "plain", one; "clip_benchmark:NAME", those of its dataset.

    Raises:
        UsageError: the source is neither a name nor a file.
        DataError: a line without `{}` or with other braces such as `{color}`, or an empty file.
        MissingExtraError: open_clip is not installed.
    """
    if source == "plain":
        return PLAIN
    if source.startswith(_BENCHMARK):
        return tuple(each.replace("{c}", "{}") for each in _clip_benchmark("zeroshot_classification_templates", source))
    if source in ("openai", "simple"):
        open_clip = _open_clip()
        shipped = open_clip.OPENAI_IMAGENET_TEMPLATES if source == "openai" else open_clip.SIMPLE_IMAGENET_TEMPLATES
        return tuple(str(template("{}")) for template in shipped)
    path = Path(source.removeprefix("file:")).expanduser()
    if not path.is_file():
        raise UsageError(f"templates {source!r} are none of openai, simple, plain, {_BENCHMARK}NAME, and no file.")
    lines = tuple(line for _, line in read_lines(path))
    bad = [line for line in lines if not line.count("{}") == line.count("{") == line.count("}") == 1]
    if bad or not lines:
        raise DataError(
            f"{path}: every template needs {{}} once, where the class goes, and no other braces; found "
            f"{bad[0] if lines else 'none'!r}."
        )
    return lines


def _check_space(X: FloatArray, S: FloatArray) -> None:
    if S.shape[1] % X.shape[1]:
        raise DataError(
            f"prompts compare images and classes in one space; features have {X.shape[1]} dimensions and class "
            f"embeddings {S.shape[1]}. Use embedding=prompts with a model that has a text tower, such as open_clip:."
        )
