"""The chart of a leak audit: how near every class is to the seen concepts, and how it stands to them."""

from __future__ import annotations

from typing import Any

from unseen.concepts import Audit, Relation, load_wordnet
from unseen.reports.charts import Axis, Chart, Dots, Scatter
from unseen.reports.theme import FILE_WIDTH, NEUTRAL, PALETTE, SYMBOLS, Key, to_spec

#: The largest number of classes with a row each; more are shown by their rank.
_MOST_NAMES = 120
_COLOURS = {
    Relation.SEEN: PALETTE[1],
    Relation.DESCENDANT: PALETTE[4],
    Relation.ANCESTOR: PALETTE[3],
    Relation.UNSEEN: PALETTE[2],
}


def audit_chart(audit: Audit) -> dict[str, Any]:
    """Return a chart with one point per matched class: similarity to its nearest seen concept, coloured by relation.

    Classes that were not matched have no similarity; the title states how many there are.
    """
    rows = _records(audit)
    keys = [
        Key(str(relation), colour, symbol)
        for (relation, colour), symbol in zip(_COLOURS.items(), SYMBOLS[:4], strict=True)
    ]
    axis = Axis("Lin similarity to the nearest seen concept", kind="number", include=(0.0, 1.0))
    tooltip = {name: name for name in ("class", "synset", "relation", "nearest", "value")}
    chart: Chart
    if len(rows) <= _MOST_NAMES:
        chart = Dots(rows=rows, series="relation", keys=keys, y="class", x=axis, tooltip=tooltip)
    else:
        ranks = Axis("classes, nearest first", kind="number")
        chart = Scatter(rows=rows, series="relation", keys=keys, x="rank", x_axis=ranks, y=axis, tooltip=tooltip)
    title = {"text": _headline(audit), "subtitle": audit.seen_name, "subtitleColor": NEUTRAL}
    return {**to_spec(chart), "width": FILE_WIDTH, "title": title}


def _headline(audit: Audit) -> str:
    seen, unmatched = audit.counts[Relation.SEEN], audit.counts[Relation.UNKNOWN]
    headline = f"{seen} of {len(audit.rows)} {audit.noun} seen in training"
    return f"{headline}; {unmatched} not matched" if unmatched else headline


def _records(audit: Audit) -> list[dict[str, Any]]:
    wordnet = load_wordnet()
    matched = [row for row in audit.rows if row.similarity is not None and row.match.wnid and row.nearest]
    matched.sort(key=lambda row: (-(row.similarity or 0.0), row.match.name))
    return [
        {
            "rank": rank,
            "class": row.match.name,
            "synset": f"{row.match.wnid} {wordnet.label(row.match.wnid or '')}",
            "relation": str(row.relation),
            "nearest": wordnet.label(row.nearest or ""),
            "value": round(row.similarity or 0.0, 4),
        }
        for rank, row in enumerate(matched, start=1)
    ]
