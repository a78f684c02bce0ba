"""Prompts: predict the class whose text description is nearest to the image.

Paper:      Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021 [P]
Shapes:     X (n, d) image features and S (c, d) class embeddings of one model with two towers
Implements: [P] section 3.1: cosine of image and text; the embedding of a class is the mean over templates of unit
            vectors, scaled to unit length again
Differs:    nothing is learnt, so images of seen classes are not used. Prompts contain class names as the dataset
            writes them; [P] curated those of its datasets by hand
Expected:   ImageNet, ViT-B/32 of [P] with the 80 templates: 63.2 top-1; not run here, its weights need the network
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unseen.core.errors import DataError, UsageError
from unseen.core.extras import ensure_torchvision, import_extra
from unseen.core.records import MethodCard
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, unit_rows

if TYPE_CHECKING:
    from unseen.backbones.backbone import TextTower

#: The template of `plain`, which does not need open_clip.
PLAIN = ("a photo of a {}.",)
_BATCH = 256
_SPACE = re.compile(r"\s")
_PLUS = re.compile(r"(?<=[^\W\d_])\+(?=[^\W\d_])")
_NUMBERED = re.compile(r"^\d+\.(?=[^\W\d])")


class Prompt(ZeroShotMethod):
    """Cosine between the features of an image and the text features of a class."""

    card = MethodCard(
        id="prompt",
        name="Text prompts of a model with two towers",
        group="zero-shot, prompts",
        citation="Radford et al., ICML 2021",
        notes="needs embedding=prompts",
    )

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        _check_space(X, S)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return prompt_scores(X, S)


def prompt_scores(X: FloatArray, S: FloatArray) -> FloatArray:
    """Return (n, c) cosines of image features X (n, d) and class embeddings S (c, d)."""
    _check_space(X, S)
    return np.asarray(unit_rows(np.asarray(X, np.float64)) @ unit_rows(np.asarray(S, np.float64)).T)


def prompt_embeddings(tower: TextTower, classes: Sequence[str], templates: Sequence[str]) -> FloatArray:
    """Return (c, d): the mean over templates of the unit text features of each class, of unit length.

    Args:
        tower: from texts to vectors.
        classes: names, which `prompt_names` puts into words.
        templates: texts with `{}` where the name goes.
    """
    texts = [template.replace("{}", name) for name in prompt_names(classes) for template in templates]
    parts = [np.asarray(tower(texts[i : i + _BATCH]), np.float64) for i in range(0, len(texts), _BATCH)]
    found = unit_rows(np.concatenate(parts)).reshape(len(classes), len(templates), -1)
    return unit_rows(found.mean(1))


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
    return [name if _SPACE.search(name) else _worded(name) for name in names]


def shared_prompts(classes: Sequence[str]) -> dict[str, list[str]]:
    """Return the classes that have the same words in their prompts, by those words; no prompt can distinguish them."""
    found: dict[str, list[str]] = {}
    for name, words in zip(classes, prompt_names(classes), strict=True):
        found.setdefault(words, []).append(name)
    return {words: names for words, names in found.items() if len(names) > 1}


def _worded(name: str) -> str:
    words = " ".join(_PLUS.sub(" ", name).replace("_", " ").split())
    return words or name


def read_templates(source: str) -> tuple[str, ...]:
    """Return templates by name ("openai": the 80 of open_clip; "simple": its 7; "plain": one) or from a file.

    A file has one per line, `{}` standing for the class.

    Raises:
        UsageError: the source is neither a name nor a file.
        DataError: a line without `{}` or with other braces such as `{color}`, or an empty file.
        MissingExtraError: open_clip is not installed.
    """
    if source == "plain":
        return PLAIN
    if source in ("openai", "simple"):
        ensure_torchvision()
        open_clip = import_extra("open_clip", "clip")
        shipped = open_clip.OPENAI_IMAGENET_TEMPLATES if source == "openai" else open_clip.SIMPLE_IMAGENET_TEMPLATES
        return tuple(str(template("{}")) for template in shipped)
    path = Path(source.removeprefix("file:")).expanduser()
    if not path.is_file():
        raise UsageError(f"templates {source!r} are none of openai, simple, plain, and no file.")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the templates {path}: {error}.") from None
    if not lines or (bad := next((line for line in lines if not _is_template(line)), None)) is not None:
        raise DataError(
            f"{path}: every template needs {{}} once, where the class goes, and no other braces; found "
            f"{bad if lines else 'none'!r}."
        )
    return tuple(lines)


def _is_template(line: str) -> bool:
    return line.count("{}") == line.count("{") == line.count("}") == 1


def _check_space(X: FloatArray, S: FloatArray) -> None:
    if X.shape[1] != S.shape[1]:
        raise DataError(
            f"prompts compare images and classes in one space; features have {X.shape[1]} dimensions and class "
            f"embeddings {S.shape[1]}. Use embedding=prompts with a model that has a text tower, such as open_clip:."
        )
