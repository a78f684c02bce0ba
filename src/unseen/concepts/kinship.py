"""How a concept stands to the seen ones: seen itself, below one, above one, or none of these."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from unseen.concepts.taxonomy import Taxonomy


class Relation(StrEnum):
    """How a class stands to the seen concepts; the strongest that holds."""

    SEEN = "seen"
    DESCENDANT = "descendant of seen"
    ANCESTOR = "ancestor of seen"
    UNSEEN = "unseen"
    UNKNOWN = "not matched"


class Kinship:
    """Answers how a concept stands to the seen ones."""

    def __init__(self, taxonomy: Taxonomy, seen: Sequence[str]) -> None:
        self.seen = frozenset(seen)
        self._taxonomy = taxonomy
        self._above_seen = taxonomy.ancestors(seen)

    def of(self, concept: str, *, narrower: bool = False) -> tuple[Relation, tuple[str, ...]]:
        """Relation and the seen concepts behind it.

        Args:
            concept: its id.
            narrower: the class is a kind of the concept, not the concept itself: it can be below a seen one, and
                nothing follows from a seen one below the concept.
        """
        above = self.seen.intersection(self._taxonomy.ancestors(concept))
        if narrower:
            above |= self.seen.intersection({concept})
            return (Relation.DESCENDANT, tuple(sorted(above))) if above else (Relation.UNSEEN, ())
        if concept in self.seen:
            return Relation.SEEN, (concept,)
        if above:
            return Relation.DESCENDANT, tuple(sorted(above))
        if concept in self._above_seen:
            return Relation.ANCESTOR, tuple(sorted(self.seen.intersection(self._taxonomy.descendants(concept))))
        return Relation.UNSEEN, ()
