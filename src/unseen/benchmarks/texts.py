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

#: Raised whenever a class name becomes another prompt. 2: class names are used as written.
PROMPT_VERSION = 2


def text_embeddings(bench: Workbench, model: str, classes: Sequence[str], templates: str) -> FloatArray:
    """Return the (c, d) embeddings of class names by a model's text tower.

    Classes that share a prompt enter the run record as a note.

    Raises:
        DataError: the model has none.
    """
    from unseen.zeroshot.prompt import prompt_embeddings, read_templates, shared_prompts  # they need scikit-learn

    tower = bench.backbone(model).text
    if tower is None:
        raise DataError(
            f"{model} has no text tower, so it cannot read class names. Take a model with two towers, such as "
            "open_clip:ViT-B-32/laion2b_s34b_b79k."
        )
    for words, names in shared_prompts(classes).items():
        bench.recorder.note(f"{len(names)} classes share the prompt {words!r}: {', '.join(map(repr, names))}")
    return prompt_embeddings(tower, classes, read_templates(templates))


def check_templates(templates: str) -> None:
    """Raise an `UnseenError` if templates are neither a known name nor a file of templates."""
    if templates not in ("openai", "simple", "plain"):
        from unseen.zeroshot.prompt import read_templates

        read_templates(templates)


def text_version(model: str) -> dict[str, int]:
    """A part of a cell's version that changes with the weights of another model's text tower."""
    return {"text": int(digest(backbone_revision(model), length=8), 16)} if model else {}
