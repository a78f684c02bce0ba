"""Describe run records in words: short findings for tables and terminals, and the full record as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from unseen.core.run_record import LoadedModel, RunRecord, SearchRecord

#: Names of dropped things in findings: singular, plural. Findings list them in this order.
NOUNS: Mapping[str, tuple[str, str]] = {
    "image": ("unreadable image", "unreadable images"),
    "unlabelled": ("image without a label", "images without a label"),
    "class": ("dropped class", "dropped classes"),
    "label": ("dropped label", "dropped labels"),
    "tensor": ("dropped tensor", "dropped tensors"),
    "candidate": ("failed hyper-parameter candidate", "failed hyper-parameter candidates"),
}


class Fact(NamedTuple):
    """A notable fact of a record other than a loss.

    Attributes:
        key: facts with the same key are of one sort.
        text: the fact, if all facts of its sort are equal.
        several: the fact if they differ; `{n}` is the number of units.
        unit: what the fact is about: a model, a search, a dataset.
    """

    key: str
    text: str
    several: str
    unit: Any


def findings(records: Mapping[str, RunRecord]) -> list[str]:
    """Return one phrase per notable fact of several records, the losses first.

    Args:
        records: by dataset; records on the same data are merged first (`RunRecord.merged`), so that an image that
            several models cannot read counts once.
    """
    losses: Counter[str] = Counter()
    facts: dict[str, list[Fact]] = {}
    for dataset, record in records.items():
        losses.update(record.losses())
        for fact in _facts(record, dataset):
            facts.setdefault(fact.key, []).append(fact)
    found = [_count(number, *NOUNS[kind]) for kind, number in losses.items() if number]
    for alike in facts.values():
        units = len({fact.unit for fact in alike})
        equal = len({fact.text for fact in alike}) == 1
        found.append(alike[0].text if equal else alike[0].several.format(n=f"{units:,}"))
    return found


def _facts(record: RunRecord, dataset: str) -> Iterator[Fact]:
    for name, counts in record.incomplete.items():
        text = f"{name} has {counts.found:,} of {counts.expected:,} images"
        yield Fact(f"images {name}", text, f"{name} has an unexpected number of images in {{n}} datasets", dataset)
    for number, leaf in enumerate(record.leaves()):
        yield from _model_facts(leaf.model) if leaf.model is not None else ()
        yield from search_facts(leaf.search, (dataset, number)) if leaf.search is not None else ()
    if record.provenance in ("own sample", "unknown", "community folder"):
        text = f"source of the examples: {record.provenance}"
        yield Fact("provenance", text, "{n} datasets are not the authors' own subsets", dataset)
    for note in (text.rstrip(".") for text in record.notes):
        yield Fact(note, note, note, dataset)


def _model_facts(model: LoadedModel) -> Iterator[Fact]:
    missing = _count(len(model.missing), "tensor") + " missing from the checkpoint"
    unused = _count(len(model.unused), "unused tensor") + " in the checkpoint"
    network = f"loaded {model.network!r} of the checkpoint, not {', '.join(map(repr, model.alternatives))}"
    for present, text, several in (
        (model.missing, missing, "tensors missing from {n} checkpoints"),
        (model.unused, unused, "unused tensors in {n} checkpoints"),
        (model.alternatives, network, "one of several networks loaded from {n} checkpoints"),
        (model.inferred, f"architecture inferred: {model.architecture}", "architecture inferred for {n} checkpoints"),
        (model.resized, "position embeddings resized", "position embeddings resized"),
        (model.class_scores, f"features are {model.layer}", "features of {n} models are class scores"),
    ):
        if present:
            yield Fact(several, text, several, model)


def search_facts(search: SearchRecord, unit: object = "") -> Iterator[Fact]:
    """Yield the choices of a search at the edge of its grid; `unit` identifies the search among others."""
    for name, value in search.edges.items():
        text = f"best {name}={short_value(value)} is at the edge of its search grid"
        if name in search.grids:
            low, high = search.grids[name]
            text = f"best {name}={short_value(value)} is the {'smallest' if value == low else 'largest'} value of its "
            text += f"search grid ({short_value(low)} to {short_value(high)})"
        yield Fact(f"edge {name}", text, f"best {name} at the edge of its search grid in {{n}} searches", unit)


def record_lines(record: RunRecord) -> Iterator[str]:
    """Yield the full record as lines of text."""
    yield f"Findings: {'; '.join(record.findings()) or 'none, everything was used'}"
    for split, counts in record.images.items():
        expected = "" if counts.expected is None else f", {counts.expected:,} expected by the protocol"
        yield f"Images of {split}: {counts.found:,} found, {counts.used:,} used{expected}"
    if record.classes_given is not None or record.classes_used is not None:
        given, used = ("unknown" if n is None else f"{n:,}" for n in (record.classes_given, record.classes_used))
        yield f"Classes: {given} given, {used} used"
    if record.provenance:
        yield f"Source of the examples: {record.provenance}"
    if record.source:
        yield f"Source of the numbers: {record.source}"
    yield from _titled("Notes", record.notes)
    yield from _titled("Dropped", (each.text for each in record.dropped if each.kind != "candidate"))
    yield from _part_lines(record)


def _part_lines(record: RunRecord, known: RunRecord | None = None) -> Iterator[str]:
    """Yield how the model was loaded and how the search went, part by part, without what `known` states."""
    if record.model is not None and (known is None or known.model is None):
        yield from _titled("Model", _model_lines(record.model))
    if record.search is not None and (known is None or known.search is None):
        edges = [fact.text for fact in search_facts(record.search)]
        yield f"Hyper-parameter search: {'; '.join((_count(record.search.tried, 'candidate'), *edges))}"
    if not record.parts:
        yield from _titled("Failed", (each.text for each in record.dropped if each.kind == "candidate"))
    for name, part in record.parts.items():
        yield from _titled(name, _part_lines(part, record))


def _model_lines(model: LoadedModel) -> Iterator[str]:
    how = "inferred" if model.inferred else "given"
    named = {
        "file": model.file,
        "network": model.network,
        "other networks": ", ".join(model.alternatives),
        "architecture": model.architecture and f"{model.architecture} ({how})",
        "tensors loaded": "" if model.matched is None else f"{model.matched:,}",
        "missing tensors": ", ".join(model.missing),
        "unused tensors": ", ".join(model.unused),
        "resized position embeddings": ", ".join(model.resized),
        "layer": model.layer,
    }
    yield from (f"{name}: {text}" for name, text in named.items() if text)


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a title and indented lines; nothing if there is no line."""
    for number, line in enumerate(lines):
        if not number:
            yield f"{title}:"
        yield f"  {line}"


def short_value(value: object) -> str:
    """Return a hyper-parameter value with at most four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
