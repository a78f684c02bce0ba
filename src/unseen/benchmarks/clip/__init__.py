"""Zero-shot classification by text prompts. The metadata here loads no numeric library."""

from __future__ import annotations

from unseen.results.info import TOP1, BenchmarkInfo

CLIP = BenchmarkInfo(
    title="Prompts",
    task="zero-shot-image-classification",
    question="How well do text prompts recognise the classes, without a training image?",
    command="clip run",
    sentence="""Images of the {split} split were classified by the nearest text embedding of their class names, with
        the prompt templates {templates}; nothing was trained""",
    citations=("clip",),
    metrics=(TOP1,),
)
