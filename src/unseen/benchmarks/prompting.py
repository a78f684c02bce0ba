"""Prompts of benchmarks: their options, and class embeddings by the text tower of a model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unseen.backbones.load import backbone_revision
from unseen.benchmarks.workbench import GIVEN, Workbench
from unseen.core.arrays import FloatingArray
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import digest, option
from unseen.data import Dataset

#: Raised whenever a class name becomes another prompt. 2: class names are used as written.
PROMPT_VERSION = 2
_AUTO = "auto"


@dataclass(frozen=True)
class PromptOptions:
    """Options of every benchmark that embeds class names."""

    templates: str = option(
        "openai",
        file=True,
        help="Prompt templates: openai (80), simple (7), plain (1), clip_benchmark:NAME, or a file with {} per line.",
    )
    text_model: str = option("", help="Model with the text tower; by default the evaluated model.", rare=True)
    class_names: str = option(
        "dataset",
        file=True,
        help="Names in prompts: dataset (as written), open_clip (ImageNet), clip_benchmark:NAME, or a file.",
        rare=True,
    )
    descriptions: str = option(
        _AUTO,
        file=True,
        help="Texts per class in place of templates: a .json, .csv or .tsv file, or none; auto: those of the dataset.",
        rare=True,
    )
    combine: Literal["mean", "max"] = option(
        "mean", help="Several texts of a class: the mean of their embeddings, or the greatest cosine.", rare=True
    )

    def prompt_idle(self) -> Collection[str]:
        """Return the options that have their default, so that results from before they existed keep their ids."""
        defaults = {"text_model": "", "class_names": "dataset", "descriptions": _AUTO, "combine": "mean"}
        return [name for name, value in defaults.items() if getattr(self, name) == value]

    def prompt_versions(self, name: str) -> dict[str, int]:
        """Return the version of prompts under a name, and one that changes with the weights of another text tower."""
        tower = {"text": int(digest(backbone_revision(self.text_model), length=8), 16)} if self.text_model else {}
        return {name: PROMPT_VERSION, **tower}

    def check_prompts(self, dataset: Dataset) -> None:
        """Raise an `UnseenError` if templates, class names or descriptions do not fit the dataset."""
        from unseen.zeroshot.prompt import curated_names, read_templates  # imports scikit-learn

        if self.templates not in ("openai", "simple", "plain"):
            read_templates(self.templates)
        curated_names(self.class_names, dataset)
        self._descriptions(dataset)

    def _descriptions(self, dataset: Dataset) -> list[list[str]]:
        from unseen.zeroshot.prompt import read_descriptions

        if self.descriptions == _AUTO:
            found = [list(own) for own in getattr(dataset, "descriptions", ())]
            if found and not all(found):
                lost = dataset.class_names[[bool(own) for own in found].index(False)]
                raise DataError(f"{dataset.id!r}: {lost!r} has no description. Add one, or give --descriptions none.")
            return found
        if self.descriptions == "none":
            return []
        return read_descriptions(Path(self.descriptions).expanduser(), dataset)

    def text_embeddings(self, bench: Workbench, model: str, dataset: Dataset) -> FloatingArray:
        """Return class embeddings by the text tower, as `prompt_embeddings` does; record classes that share a prompt.

        Raises:
            DataError: the model has no text tower.
        """
        from unseen.zeroshot.prompt import curated_names, prompt_embeddings, read_templates, shared_prompts

        name = self.text_model or model
        if name.startswith(GIVEN):
            raise UsageError(f"{name} has features only, so it cannot embed class names. Give --text-model.")
        tower = bench.backbone(name).text
        if tower is None:
            raise DataError(
                f"{name} has no text tower, so it cannot embed class names. Take a model with two towers, such as "
                "open_clip:ViT-B-32/laion2b_s34b_b79k."
            )
        classes = curated_names(self.class_names, dataset)
        descriptions = self._descriptions(dataset)
        for words, names in shared_prompts(classes, descriptions).items():
            bench.recorder.note(f"{len(names)} classes share the prompt {words!r}: {', '.join(map(repr, names))}")
        templates = () if descriptions else read_templates(self.templates)
        return prompt_embeddings(tower, classes, templates, descriptions=descriptions, combine=self.combine)
