"""Class embeddings from the text tower of a model, for the benchmarks that take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unseen.backbones.load import backbone_revision
from unseen.core.errors import DataError
from unseen.core.identity import digest

if TYPE_CHECKING:
    from unseen.benchmarks.workbench import Workbench
    from unseen.zeroshot.method import FloatArray


def text_embeddings(bench: Workbench, model: str, classes: Sequence[str], templates: str) -> FloatArray:
    """(c, d) embeddings of class names by a model's text tower.

    Raises:
        DataError: the model has none.
    """
    from unseen.zeroshot.prompt import prompt_embeddings, read_templates  # a plan or a help text needs no scikit-learn

    tower = bench.backbone(model).text
    if tower is None:
        raise DataError(
            f"{model} has no text tower, so it cannot read class names. Take a model with two towers, such as "
            "open_clip:ViT-B-32/laion2b_s34b_b79k."
        )
    return prompt_embeddings(tower, classes, read_templates(templates))


def text_version(model: str) -> dict[str, int]:
    """A part of a cell's version that changes with the weights of another model's text tower."""
    return {"text": int(digest(backbone_revision(model), length=8), 16)} if model else {}
