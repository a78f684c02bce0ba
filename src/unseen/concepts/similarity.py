"""Similarities of concepts on the graph of a taxonomy, for pairs and for whole matrices.

Papers:     Sariyildiz et al., ICCV 2021 [P], Eq. (1) Lin and Eq. (2) similarity to a set;
            Resnik 1995; Jiang & Conrath 1997; Wu & Palmer 1994; Leacock & Chodorow 1998
Shapes:     a, b lists of ids; matrices (len(a), len(b)) float64
Definitions: IC information content, S(x, y) the common subsumers, d(x, y) edges on the shortest way over a common
            subsumer, D edges on the longest way from any concept to the root:
                resnik            max IC over S(x, y), called IC(LCS)
                lin               2 IC(LCS) / (IC(x) + IC(y))                             Eq. (1) of [P]
                jiang-conrath     1 / (IC(x) + IC(y) - 2 IC(LCS)); infinite where that is 1/0; 0 if x or y is the root
                path              1 / (1 + d)
                leacock-chodorow  -log((1 + d) / 2D)
                wu-palmer         2 e / (2 e + d(x, s) + d(y, s)), s of greatest shortest depth in S(x, y), e = 1 + its
                                  longest depth; see `unseen.concepts.wu_palmer` for ties
Differs:    these are NLTK's conventions, to 1e-9. One addition: lin is 1 where NLTK divides 0 by 0 (two concepts
            without information, such as the root and itself)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.concepts.information import InformationContent
from unseen.concepts.subsumption import Pairs
from unseen.concepts.taxonomy import IntArray, Taxonomy
from unseen.concepts.wu_palmer import wu_palmer
from unseen.core.errors import TaxonomyError, UnknownNameError

FloatArray = npt.NDArray[np.float64]

# Cells of one table of the kernel: 8 MB of float64, which stays in the cache and spares fresh pages.
_BLOCK_CELLS = 1_000_000
_BLOCK_ROWS = 8_192


def _resnik(pairs: Pairs, ic: FloatArray) -> FloatArray:
    return pairs.greatest_common(ic, -np.inf)


def _lin(pairs: Pairs, ic: FloatArray) -> FloatArray:
    shared = 2.0 * _resnik(pairs, ic)
    total = ic[pairs.a][:, None] + ic[pairs.b][None, :]
    return np.divide(shared, total, out=np.ones_like(shared), where=total > 0)  # Eq. (1)


def _jiang_conrath(pairs: Pairs, ic: FloatArray) -> FloatArray:
    own_a, own_b = ic[pairs.a][:, None], ic[pairs.b][None, :]
    distance = own_a + own_b - 2.0 * _resnik(pairs, ic)
    with np.errstate(divide="ignore"):
        result = np.where(distance == 0.0, np.inf, 1.0 / distance)
    result[np.broadcast_to((own_a == 0.0) | (own_b == 0.0), result.shape)] = 0.0
    result[pairs.a[:, None] == pairs.b[None, :]] = np.inf
    return result


def _path(pairs: Pairs) -> FloatArray:
    return np.asarray(1.0 / (1.0 + pairs.shortest_path()))


def _leacock_chodorow(pairs: Pairs) -> FloatArray:
    if pairs.taxonomy.height == 0:
        raise TaxonomyError("Leacock-Chodorow similarity needs a taxonomy with at least one edge.")
    return np.asarray(-np.log((1.0 + pairs.shortest_path()) / (2.0 * pairs.taxonomy.height)))


@dataclass(frozen=True)
class Measure:
    """A similarity on the graph.

    Attributes:
        name: as the user writes it.
        on_graph: the formula, for a measure of the graph alone; else None.
        on_information: the formula, for a measure that takes information content; else None.
    """

    name: str
    on_graph: Callable[[Pairs], FloatArray] | None = None
    on_information: Callable[[Pairs, FloatArray], FloatArray] | None = None


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("lin", on_information=_lin),
        Measure("jiang-conrath", on_information=_jiang_conrath),
        Measure("resnik", on_information=_resnik),
        Measure("wu-palmer", on_graph=wu_palmer),
        Measure("path", on_graph=_path),
        Measure("leacock-chodorow", on_graph=_leacock_chodorow),
    )
}


def similarity_matrix(
    taxonomy: Taxonomy,
    a: Sequence[str],
    b: Sequence[str],
    measure: str = "lin",
    *,
    ic: InformationContent | None = None,
) -> FloatArray:
    """Similarity of every concept of `a` with every concept of `b`.

    Args:
        taxonomy: the graph.
        a, b: ids; repeats are fine.
        measure: "lin", "jiang-conrath", "resnik", "wu-palmer", "path", "leacock-chodorow"; or "text", which compares
            names and descriptions with the default word vectors (see `unseen.concepts.text` for more say in it).
        ic: information content; by default that of the whole taxonomy. Measures of the graph alone do not use it.

    Returns:
        (len(a), len(b)) float64.
    """
    if measure == "text":
        from unseen.concepts.text import text_similarity_matrix

        return text_similarity_matrix(taxonomy, a, b)
    if measure not in MEASURES:
        raise UnknownNameError("similarity", measure, [*MEASURES, "text"])
    index_a, index_b = taxonomy.index(a), taxonomy.index(b)
    formula = _formula(MEASURES[measure], taxonomy, ic, index_a, index_b)
    result = np.empty((len(index_a), len(index_b)))
    for top in range(0, len(index_a), _BLOCK_ROWS):
        rows = slice(top, top + _BLOCK_ROWS)
        width = max(1, _BLOCK_CELLS // max(1, int(taxonomy.subsumers(index_a[rows]).sum())))
        for left in range(0, len(index_b), width):
            columns = slice(left, left + width)
            result[rows, columns] = formula(Pairs(taxonomy, index_a[rows], index_b[columns]))
    return result


def pair_similarity(
    taxonomy: Taxonomy, x: str, y: str, measure: str = "lin", *, ic: InformationContent | None = None
) -> float:
    """Similarity of two concepts; the arguments are those of `similarity_matrix`."""
    return float(similarity_matrix(taxonomy, [x], [y], measure, ic=ic)[0, 0])


def _formula(
    measure: Measure, taxonomy: Taxonomy, ic: InformationContent | None, a: IntArray, b: IntArray
) -> Callable[[Pairs], FloatArray]:
    """The measure as a function of pairs alone."""
    if measure.on_graph is not None:
        return measure.on_graph
    assert measure.on_information is not None
    content = ic if ic is not None else taxonomy.information
    if content.taxonomy is not taxonomy:
        raise TaxonomyError("the information content was computed on another taxonomy. Compute it on this one.")
    for index in (a, b):
        outside = index[np.isinf(content.values[index])]
        if len(outside):
            raise TaxonomyError(
                f"{taxonomy.ids[int(outside[0])]!r} is outside the corpus of the information content"
                f" ({len(outside)} such). Add these concepts to the corpus, or use the whole taxonomy (ic=None)."
            )
    formula = measure.on_information
    return lambda pairs: formula(pairs, content.values)
