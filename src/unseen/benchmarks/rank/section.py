"""The section of `unseen rank`: the recommendation first, then mean ranks with their intervals, then every score."""

from __future__ import annotations

from dataclasses import replace

from unseen.reports.blocks import Material, Section
from unseen.reports.scores import scores_section


def rank_section(material: Material, benchmark: str) -> Section | None:
    """What to fine-tune, how sure that is, and the scores behind it."""
    own = [result for result in material.results if result.cell.benchmark == benchmark and result.ok]
    section = scores_section(material, benchmark)
    if section is None:
        return None
    details = own[0].details
    counted = ", ".join(details.get("counted", ()))
    explained = (
        f"Ranks by {counted}, averaged: 1 is the best. Bars are 95 % intervals over {details.get('resamples', 0)} "
        f"half-samples of {details.get('images', 0):,} images of {details.get('classes', 0)} classes."
    )
    notes = list(dict.fromkeys(note for result in own for note in result.details.get("notes", ())))
    return replace(
        section,
        title="Which checkpoint to fine-tune",
        prose=[str(details.get("recommendation", "")), explained, *(f"Note: {note}." for note in notes)],
        points=[],
    )
