"""One colour and one symbol per model, for all charts of a section: of many models, one colour per family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unseen.core.records import ModelCard
from unseen.reports.blocks import Key
from unseen.reports.charts import NEUTRAL, PALETTE, SYMBOLS
from unseen.reports.wording import family, is_reference

#: The family of the model that a paper compares others with.
REFERENCE = "reference"


def series_keys(models: Sequence[str], names: Mapping[str, str], cards: Mapping[str, ModelCard]) -> dict[str, Key]:
    """A legend entry per model.

    Up to six models have a colour each, and so have more where all are of one family. Else they share the colour of
    their family and differ in their symbol (more than six of a family in their shade, too), and the legend lists them
    by family. Random weights are grey.
    """
    learned = [model for model in models if not is_reference(model)]
    families = list(dict.fromkeys(family(model, cards) for model in learned))
    many = len(learned) > len(PALETTE) and len({*families} - {REFERENCE}) > 1
    if many:
        learned.sort(key=lambda model: families.index(family(model, cards)))
    keys: dict[str, Key] = {}
    for model in [*learned, *(model for model in models if is_reference(model))]:
        group = family(model, cards)
        kin = [key for key in keys.values() if key.group == group]
        if is_reference(model):
            colour, symbol = NEUTRAL, SYMBOLS[len(kin) % len(SYMBOLS)]
        elif many:
            shade = len(kin) // len(SYMBOLS)
            colour = _lighter(PALETTE[families.index(group) % len(PALETTE)], shade)
            symbol = SYMBOLS[len(kin) % len(SYMBOLS)]
        else:
            place = len(keys)
            colour = PALETTE[place % len(PALETTE)]
            symbol = SYMBOLS[(place + place // len(PALETTE)) % len(SYMBOLS)]
        keys[model] = Key(names[model], colour, symbol, key=model, group=group if many or len(families) > 1 else "")
    return keys


def _lighter(colour: str, shade: int) -> str:
    """A colour moved towards white by 40 % of the way, `shade` times."""
    for _ in range(shade):
        parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        colour = "#" + "".join(f"{round(part + 0.4 * (255 - part)):02X}" for part in parts)
    return colour
