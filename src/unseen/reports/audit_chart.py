"""The chart of a leak audit: how near every class is to the seen concepts, and how it stands to them."""

from __future__ import annotations

from typing import Any

from unseen.concepts import Audit, Relation, load_wordnet
from unseen.reports.charts import FILE_WIDTH, NEUTRAL, PALETTE, SHAPES

# Beyond this many, a name per line is unreadable: classes become a ranked row of points.
_MOST_NAMES = 120
_LINE = 16
_COLOURS = {
    Relation.SEEN: PALETTE[1],
    Relation.DESCENDANT: PALETTE[4],
    Relation.ANCESTOR: PALETTE[3],
    Relation.UNSEEN: PALETTE[2],
}


def audit_chart(audit: Audit) -> Any:
    """An Altair chart: one point per matched class, similarity to its nearest seen concept, coloured by relation.

    Classes that were not matched have no similarity; the title says how many there are.
    """
    import altair as alt

    rows = _records(audit)
    relations = [relation for relation in _COLOURS if audit.counts[relation]]
    colour = alt.Color("relation:N", title=None).scale(
        domain=[str(r) for r in relations], range=[_COLOURS[r] for r in relations]
    )
    shape = alt.Shape("relation:N", title=None).scale(
        domain=[str(r) for r in relations], range=list(SHAPES[: len(relations)])
    )
    similarity: dict[str, Any] = {"field": "similarity", "type": "quantitative"}
    axis = "Lin similarity to the nearest seen concept"
    shown = alt.Chart({"values": rows}).encode(
        color=colour,
        tooltip=[alt.Tooltip(f"{field}:N") for field in ("class", "synset", "relation", "nearest", "similarity")],
    )
    if len(rows) <= _MOST_NAMES:
        place = alt.Y("class:N", sort=[row["class"] for row in rows], title=None).axis(grid=False, labelLimit=220)
        scale = alt.X(**similarity, title=axis).scale(domain=[0, 1])
        stem = shown.mark_bar(height=1, opacity=0.5).encode(x=scale, y=place)
        points = shown.mark_point(filled=True, size=60, opacity=1).encode(x=scale, y=place, shape=shape)
        chart = (stem + points).properties(height=_LINE * len(rows))
    else:
        chart = shown.mark_point(filled=True, size=24, opacity=0.8).encode(
            x=alt.X("rank:Q", title="classes, nearest first"),
            y=alt.Y(**similarity, title=axis).scale(domain=[0, 1]),
            shape=shape,
        )
        chart = chart.properties(height=280)
    return chart.properties(
        width=FILE_WIDTH, title=alt.Title(_headline(audit), subtitle=audit.seen_name, subtitleColor=NEUTRAL)
    )


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
            "similarity": round(row.similarity or 0.0, 4),
        }
        for rank, row in enumerate(matched, start=1)
    ]
