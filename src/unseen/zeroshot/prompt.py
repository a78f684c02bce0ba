"""Prompts: an image is given the class whose description, put into words, lies nearest to it.

Paper:      Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021 [P]
Shapes:     X (n, d) image features and S (c, d) class embeddings of one model with two towers
Implements: [P] section 3.1: cosine of image and text; the embedding of a class is the mean over templates of unit
            vectors, scaled to unit length again
Differs:    nothing is learnt, so images of seen classes are not looked at
Expected:   ImageNet, ViT-B/32 of [P] with the 80 templates: 63.2 top-1; not run here, its weights need the network
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unseen.concepts.class_names import clean
from unseen.core.errors import DataError, UsageError
from unseen.core.extras import import_extra
from unseen.core.records import MethodCard
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, unit_rows

if TYPE_CHECKING:
    from unseen.backbones.backbone import TextTower

#: One template, where open_clip's are not wanted or not installed.
PLAIN = ("a photo of a {}.",)
_BATCH = 256


class Prompt(ZeroShotMethod):
    """Cosine between the features of an image and the text features of a class."""

    card: ClassVar[MethodCard] = MethodCard(
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
    """(n, c) cosines of image features X (n, d) and class embeddings S (c, d)."""
    _check_space(X, S)
    return np.asarray(unit_rows(np.asarray(X, np.float64)) @ unit_rows(np.asarray(S, np.float64)).T)


def prompt_embeddings(tower: TextTower, classes: Sequence[str], templates: Sequence[str]) -> FloatArray:
    """(c, d) the mean over templates of the unit text features of each class, of unit length.

    Args:
        tower: from texts to vectors.
        classes: names; underscores and the like become spaces.
        templates: texts with `{}` where the name goes.
    """
    texts = [template.format(spoken(name)) for name in classes for template in templates]
    parts = [np.asarray(tower(texts[i : i + _BATCH]), np.float64) for i in range(0, len(texts), _BATCH)]
    found = unit_rows(np.concatenate(parts)).reshape(len(classes), len(templates), -1)
    return unit_rows(found.mean(1))


def spoken(name: str) -> str:
    """A class name as it would be said; one that is nothing but digits stays."""
    return clean(name) or name


def read_templates(source: str) -> tuple[str, ...]:
    """Templates by name ("openai": the 80 that open_clip ships; "simple": its 7; "plain": one) or from a file.

    A file has one per line, `{}` standing for the class.

    Raises:
        DataError: a line without `{}`, or an empty file.
        MissingExtraError: open_clip is not installed.
    """
    if source == "plain":
        return PLAIN
    if source in ("openai", "simple"):
        from unseen.core.torchvision_shim import ensure_torchvision

        ensure_torchvision()
        open_clip = import_extra("open_clip", "clip")
        shipped = open_clip.OPENAI_IMAGENET_TEMPLATES if source == "openai" else open_clip.SIMPLE_IMAGENET_TEMPLATES
        return tuple(str(template("{}")) for template in shipped)
    path = Path(source.removeprefix("file:")).expanduser()
    if not path.is_file():
        raise UsageError(f"templates {source!r} are none of openai, simple, plain, and no file.")
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines or (bad := next((line for line in lines if line.count("{}") != 1), None)) is not None:
        raise DataError(
            f"{path}: every template needs {{}} once, where the class goes; found {bad if lines else 'none'!r}."
        )
    return tuple(lines)


def _check_space(X: FloatArray, S: FloatArray) -> None:
    if X.shape[1] != S.shape[1]:
        raise DataError(
            f"prompts compare images and classes in one space; features have {X.shape[1]} dimensions and class "
            f"embeddings {S.shape[1]}. Use embedding=prompts with a model that has a text tower, such as open_clip:."
        )
