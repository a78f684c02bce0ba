"""Text for a paper: what to cite for some results, as BibTeX, and the paragraph that describes the method.

A benchmark has a sentence with the names of its parameters in braces (`BenchmarkInfo.sentence`). If a parameter has
several values, the sentence lists them all. Parameters that the sentence does not name follow by name and value unless
they have their defaults, so that the paragraph states every setting that can change a number; the findings of the run
records follow.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence

from unseen.benchmarks.benchmark import BENCHMARKS, cell_citations, references
from unseen.core.identity import Values, canonical_json, parameters_of
from unseen.core.records import DatasetCard, Details, ModelCard, Result
from unseen.features import Extraction
from unseen.reports.wording import listed
from unseen.results.comparability import SEED, current, flat, sort_key, value_text
from unseen.results.grid import by_benchmark
from unseen.results.info import info_of
from unseen.results.render import latex_text
from unseen.results.table import DisplayNames, run_findings


def citation_keys(
    results: Sequence[Result], cards: Mapping[str, ModelCard], dataset_cards: Mapping[str, DatasetCard]
) -> dict[str, str]:
    """Return the BibTeX key of every citation of some results: benchmarks, then methods, then models and datasets.

    A citation is a key of `references.toml`, or a line of text.
    """
    cells = [result.cell for result in results]
    found = ["unseen", *(each for name in sorted({c.benchmark for c in cells}) for each in info_of(name).citations)]
    found += [each for cell in cells for each in cell_citations(cell)]
    found += [getattr(cards.get(cell.model), "citation", "") for cell in cells]
    found += [getattr(dataset_cards.get(cell.dataset), "citation", "") for cell in cells]
    keys = {citation: _known(citation) or "" for citation in dict.fromkeys(found) if citation}
    for citation, key in keys.items():
        keys[citation] = key or _made_key(citation, set(keys.values()))
    return keys


def bibtex(results: Sequence[Result], cards: Mapping[str, ModelCard], dataset_cards: Mapping[str, DatasetCard]) -> str:
    """Return the entries of all citations of some results; one that is known only as a line becomes a note."""
    keys = citation_keys(results, cards, dataset_cards)
    known = dict.fromkeys(references()[key]["bibtex"] for key in keys.values() if key in references())
    lines = [
        f"@misc{{{key},\n  note = {{{latex_text(citation)}}},\n}}\n"
        for citation, key in keys.items()
        if key not in references()
    ]
    return "\n".join([*known, *lines])


def _known(citation: str) -> str | None:
    """Return the key of a citation that `references.toml` has in full, or None."""
    found = references()
    named = (key for key, entry in found.items() if citation in (key, *entry.get("variants", ())))
    return next(named, None)


def _made_key(citation: str, taken: set[str]) -> str:
    """Return a key such as "touvron2021", followed by a letter if it is taken."""
    first = re.sub(r"[^a-z]", "", re.split(r"[\s,]", citation.lower())[0]) or "cited"
    year = re.search(r"\d{4}", citation)
    stem = f"{first}{year[0] if year else ''}"
    letters = (f"{stem}{letter}" for letter in string.ascii_lowercase[1:])
    return next(key for key in (stem, *letters, f"{stem}-{len(taken)}") if key not in taken)


#: How the paragraph writes some values of parameters, by their representation.
_WORDS = {"True": "yes", "False": "no", "None": "none", "''": "none"}

# ---- methods paragraph -----------------------------------------------------------------------------------------------


def method_paragraphs(results: Iterable[Result], names: DisplayNames) -> list[tuple[str, tuple[str, ...]]]:
    """Return per benchmark a paragraph and what to cite with it (`BenchmarkInfo.citations`).

    Args:
        names: short names of datasets, by id.
    """
    groups = by_benchmark(result for result in current(results) if result.ok)
    return [(_paragraph(name, own, names), info_of(name).citations) for name, own in groups.items()]


def _paragraph(benchmark: str, results: Sequence[Result], names: DisplayNames) -> str:
    values = _values(results)
    sentence = info_of(benchmark).sentence
    named = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
    if not named <= values.keys():  # results of an older version lack a parameter: state only what they carry
        sentence, named = f"The benchmark {benchmark} was run", set()
    sentences = [f"{sentence.format(**values)}."]
    rest = {name: text for name, text in values.items() if name not in named and name != SEED}
    defaults = _defaults(benchmark)
    others = [f"{name} {text}" for name, text in rest.items() if text != defaults.get(name)]
    if others:
        sentences.append(f"Other settings: {'; '.join(others)}.")
    if len(others) < len(rest):
        sentences.append("All other settings have their default values.")
    sentences.append(_counts(results, values.get(SEED), names))
    versions = sorted({result.cell.version for result in results if result.cell.version})
    packages = sorted({result.environment["unseen"] for result in results if "unseen" in result.environment})
    used = f"unseen {listed(packages)}".strip()
    used += f", protocol and method versions {listed(versions)}" if versions else ""
    return " ".join([*sentences, f"Computed with {used}."])


def _defaults(benchmark: str) -> dict[str, str]:
    """Return the default of each parameter as text; none for a benchmark that is not installed."""
    if benchmark not in BENCHMARKS:
        return {}
    defaults = {**parameters_of(BENCHMARKS.get(benchmark)()), "extraction": parameters_of(Extraction())}
    return {name: _WORDS.get(repr(value)) or value_text(value) for name, value in flat(defaults).items()}


def _counts(results: Sequence[Result], seeds: str | None, names: DisplayNames) -> str:
    datasets = sorted({names.get(result.cell.dataset, result.cell.dataset) for result in results})
    models = len({result.cell.model for result in results})
    text = f"{models} {'model' if models == 1 else 'models'} on {listed(datasets, len(datasets))}"
    tested = [n for r in results if (n := Details.read(r.details).test_images) is not None]
    if tested:
        text += f" ({' to '.join(dict.fromkeys(f'{n:,}' for n in (min(tested), max(tested))))} test images)"
    if seeds is not None:
        text += f"; {'seeds' if ' ' in seeds else 'seed'} {seeds}"
    found = run_findings(results)
    return f"{text}. Run record: {'; '.join(found)}." if found else f"{text}."


def _values(results: Sequence[Result]) -> dict[str, str]:
    """Return by parameter every value that occurs, as text."""
    found: dict[str, Values] = {}
    for result in results:
        for name, value in flat(result.cell.parameters).items():
            found.setdefault(name, {}).setdefault(canonical_json(value), value)
    return {
        name: listed([_WORDS.get(repr(v)) or value_text(v) for v in sorted(each.values(), key=sort_key)], len(each))
        for name, each in found.items()
    }
