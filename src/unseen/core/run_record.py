"""The run record: what an evaluation received, what it used, and what it dropped and why.

Every result has one `RunRecord`. Code that drops an image, a class, a tensor or a search candidate adds it to the
`Recorder` of the current group of cells. The workbench owns that recorder and records all images, classes and models
that are read through it.

Every output shows the same record: `findings` is the short form (terminal, LaTeX, Markdown, `repr`), `str(record)` and
`to_dict` are the full one (`unseen results record`, the HTML report, JSON). The functions at the end
describe records in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

import msgspec

_T = TypeVar("_T")

#: Names of dropped things in findings: singular, plural. Findings list them in this order.
NOUNS: Mapping[str, tuple[str, str]] = {
    "image": ("unreadable image", "unreadable images"),
    "unlabelled": ("image without a label", "images without a label"),
    "class": ("dropped class", "dropped classes"),
    "label": ("dropped label", "dropped labels"),
    "tensor": ("dropped tensor", "dropped tensors"),
    "candidate": ("failed hyper-parameter candidate", "failed hyper-parameter candidates"),
}

#: What can be dropped.
Kind = Literal["image", "unlabelled", "class", "label", "tensor", "candidate"]

#: Where the examples of a dataset come from. "" means that the protocol does not prescribe any.
Provenance = Literal["", "authors' subset", "community folder", "own sample", "unknown"]


#: Validation scores of a candidate; larger is better.
_SCORES = ("value", "accuracy", "validation")


@dataclass(frozen=True, slots=True)
class Dropped:
    """One thing that an evaluation received and did not use.

    Attributes:
        kind: what it is, such as "image".
        name: which one: a file name, a class name, a tensor name, the setting of a search candidate.
        reason: why it was dropped, as one sentence or phrase.
        split: the split it belongs to; "" if it belongs to none.
    """

    kind: Kind
    name: str
    reason: str
    split: str = ""

    @property
    def text(self) -> str:
        """Return the entry as one line."""
        return f"{self.kind} {self.name}{f' of {self.split}' if self.split else ''}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """Number of images of one split.

    Attributes:
        found: images that the dataset has.
        used: images that the evaluation used.
        expected: images that the protocol prescribes; None if it prescribes none.
    """

    found: int
    used: int
    expected: int | None = None

    @property
    def complete(self) -> bool:
        return self.expected is None or self.found == self.expected


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """How a model was loaded.

    Attributes:
        file: name of the weights file, without its folder; "" if there is none.
        network: the network that was chosen inside the file, such as "teacher"; "" if it holds only one.
        alternatives: other networks in the file.
        architecture: name of the architecture.
        inferred: whether the architecture was inferred from the tensors instead of given.
        matched: number of tensors that were loaded; None if unknown.
        missing: tensors of the architecture that the file does not have.
        unused: tensors of the file that the architecture does not have.
        resized: position embeddings that were interpolated to the size of the images, with both shapes.
        layer: what the default features contain, such as "pooled features" or "logits".
    """

    file: str = ""
    network: str = ""
    alternatives: tuple[str, ...] = ()
    architecture: str = ""
    inferred: bool = False
    matched: int | None = None
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()
    layer: str = ""

    @property
    def class_scores(self) -> bool:
        """Return whether the features are scores of classes instead of a representation."""
        return self.layer in ("logits", "class probabilities")


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """How a hyper-parameter search went.

    Attributes:
        tried: number of candidates.
        edges: hyper-parameters whose chosen value is the smallest or largest of its grid, with that value.
        grids: smallest and largest value that was tried, by hyper-parameter, for those in `edges`.
    """

    tried: int
    edges: Mapping[str, Any] = field(default_factory=dict)
    grids: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What an evaluation received, what it used, and what it dropped and why.

    Attributes:
        images: counts by split.
        classes_given: number of classes that the dataset or the class list has; None if unknown.
        classes_used: number of classes that the evaluation used; None if unknown.
        dropped: everything that was dropped, with its reason.
        model: how the model was loaded; None if no model was loaded, or if `parts` loaded different ones.
        search: how the hyper-parameter search went; None if there was none, or if `parts` have different ones.
        provenance: where the examples come from.
        notes: other facts that a reader of the number needs, as sentences.
        source: where a number comes from that was not computed here, such as "Zhai et al., 2019, Table 6".
        parts: the records that this one was merged from (see `merged`), by name; empty for the record of one cell.
    """

    images: Mapping[str, SplitCounts] = field(default_factory=dict)
    classes_given: int | None = None
    classes_used: int | None = None
    dropped: tuple[Dropped, ...] = ()
    model: LoadedModel | None = None
    search: SearchRecord | None = None
    provenance: Provenance = ""
    notes: tuple[str, ...] = ()
    source: str = ""
    parts: Mapping[str, RunRecord] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != RunRecord()

    def __str__(self) -> str:
        return "\n".join(record_lines(self))

    @classmethod
    def merged(cls, records: Mapping[str, RunRecord]) -> RunRecord:
        """Return one record for several cells on the same data, such as those of several models or seeds.

        Args:
            records: by a unique name.
        """
        several = list(records.values())
        alike = all(each == several[0] for each in several) and not any(each.search for each in several)
        if several and (alike or len(several) == 1):
            return several[0]
        return replace(_united(several), parts=dict(records)) if several else cls()

    def expecting(self, expected: Mapping[str, int]) -> RunRecord:
        """Return the record with the number of images that a protocol prescribes, for the splits that it has."""
        images = {split: replace(counts, expected=expected.get(split)) for split, counts in self.images.items()}
        return replace(self, images=images) if expected else self

    def named(self, dataset: str) -> RunRecord:
        """Return the record with the name of its dataset before every split, to merge it with other data's."""
        images = {f"{dataset} {split}": counts for split, counts in self.images.items()}
        lost = tuple(replace(each, split=f"{dataset} {each.split}".strip()) for each in self.dropped)
        return replace(self, images=images, dropped=lost)

    def leaves(self) -> Iterator[RunRecord]:
        """Yield the records of single cells that this one was merged from; itself if it is one."""
        for part in self.parts.values():
            yield from part.leaves()
        if not self.parts:
            yield self

    def losses(self) -> Counter[Kind]:
        """Return the number of things that were dropped, by kind."""
        once = {(each.kind, each.name, each.split) for each in self.dropped}
        found: Counter[Kind] = Counter(kind for kind, *_ in sorted(once, key=lambda each: list(NOUNS).index(each[0])))
        if "candidate" in found:  # two searches that drop the same candidate drop two candidates
            found["candidate"] = sum(each.kind == "candidate" for leaf in self.leaves() for each in leaf.dropped)
        return found

    def count(self, kind: Kind) -> int:
        """Return how many things of one kind were dropped."""
        return self.losses()[kind]

    @property
    def incomplete(self) -> dict[str, SplitCounts]:
        """Return the splits without the number of images that the protocol prescribes."""
        return {name: counts for name, counts in self.images.items() if not counts.complete}

    @property
    def clean(self) -> bool:
        """Return whether the evaluation used everything that it received, and the protocol's data are complete."""
        return not self.findings()

    def findings(self) -> list[str]:
        """Return one phrase per notable fact, such as "2 unreadable images", the losses first."""
        return findings({"": self})

    def merge(self, other: RunRecord) -> RunRecord:
        """Return a record with the facts of both; those of `other` win where both state one."""
        both = _united((self, other))
        return replace(both, model=other.model or self.model, search=other.search or self.search)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        values = asdict(replace(self, parts={})) | {"clean": self.clean, "findings": self.findings()}
        del values["parts"]
        return values | ({"parts": {name: part.to_dict() for name, part in self.parts.items()}} if self.parts else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Read what `to_dict` wrote; ignore keys of a later version.

        Raises:
            TypeError: a value has another type.
        """
        try:
            return msgspec.convert({key: value for key, value in values.items() if value is not None}, cls)
        except msgspec.ValidationError as error:
            raise TypeError(f"not a run record: {error}") from error


class Recorder:
    """Collect the facts of a run record while cells are evaluated."""

    def __init__(self) -> None:
        self.record = RunRecord()

    def add(self, facts: RunRecord) -> None:
        """Merge facts that another object recorded, such as what loading a dataset dropped."""
        self.record = self.record.merge(facts)

    def classes(self, given: int, used: int) -> None:
        """Record how many classes there are, and how many of them are used."""
        self.add(RunRecord(classes_given=given, classes_used=used))

    def model(self, loaded: LoadedModel) -> None:
        """Record how the model was loaded."""
        self.add(RunRecord(model=loaded))

    def note(self, sentence: str) -> None:
        """Record another fact that a reader of the number needs."""
        self.add(RunRecord(notes=(sentence,)))


def split_record(splits: Mapping[str, Sized], lost: Sequence[Dropped]) -> RunRecord:
    """Return the record of images that an evaluation reads itself, without the workbench.

    Args:
        splits: the images that it reads, by split.
        lost: those of them that could not be read.
    """
    counts = Counter(each.split for each in lost)
    images = {name: SplitCounts(len(split), len(split) - counts[name]) for name, split in splits.items()}
    return RunRecord(images=images, dropped=tuple(lost))


def dropped(kind: Kind, reasons: Mapping[str, str], split: str = "") -> tuple[Dropped, ...]:
    """Return the entries of several things that were dropped, from their names and reasons."""
    return tuple(Dropped(kind, name, reason, split) for name, reason in reasons.items())


def _united(records: Sequence[RunRecord]) -> RunRecord:
    """Return the facts of all records; `model` and `search` only if all records that have one agree."""
    images: dict[str, SplitCounts] = {}
    for split, counts in ((split, counts) for each in records for split, counts in each.images.items()):
        known = images.get(split)
        expected = known.expected if known is not None and counts.expected is None else counts.expected
        images[split] = replace(counts, expected=expected)
    return RunRecord(
        images=images,
        classes_given=_known(each.classes_given for each in records)[-1],
        classes_used=_known(each.classes_used for each in records)[-1],
        dropped=tuple(dict.fromkeys(one for each in records for one in each.dropped)),
        model=_common(each.model for each in records),
        search=_common(each.search for each in records),
        provenance=next((each.provenance for each in reversed(records) if each.provenance), ""),
        notes=tuple(dict.fromkeys(note for each in records for note in each.notes)),
        source="; ".join(dict.fromkeys(each.source for each in records if each.source)),
    )


def _common(values: Iterable[_T | None]) -> _T | None:
    known = _known(values)
    return known[-1] if all(value == known[-1] for value in known[1:]) else None


def _known(values: Iterable[_T | None]) -> list[_T | None]:
    """Return None and all values that are not None."""
    return [None, *(value for value in values if value is not None)]


def search_record(sweep: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> RunRecord:
    """Return the record of a hyper-parameter search.

    Args:
        sweep: the candidates that were tried, as `Result.sweep` holds them; a failed one has the key "error".
        best: the chosen values by hyper-parameter.

    Returns:
        A record with the number of candidates, the failed ones with their reasons, and the hyper-parameters whose
        chosen value lies on the edge of its grid: it is the smallest or largest of at least three values, and no
        candidate with a value in between did as well. Neither of these is an edge: a count of 1 or 0 (neighbours,
        epochs), because there is no smaller one; any value of a search that sampled, where several hyper-parameters
        have a different value in every candidate.
    """
    if not sweep:
        return RunRecord()
    failed = tuple(
        Dropped("candidate", _setting(trial, best), str(trial["error"])) for trial in sweep if trial.get("error")
    )
    tried = {name: {trial[name] for trial in sweep if _is_number(trial.get(name))} for name in best}
    sampled = sum(len(values) == len(sweep) for values in tried.values()) > 1
    grids = {name: (min(values), max(values)) for name, values in tried.items() if len(values) >= 3 and not sampled}
    edges = {name: best[name] for name, grid in grids.items() if _is_edge(name, grid, sweep, best)}
    return RunRecord(dropped=failed, search=SearchRecord(len(sweep), edges, {name: grids[name] for name in edges}))


def _is_edge(name: str, grid: tuple[float, float], sweep: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> bool:
    """Return whether the chosen value of a hyper-parameter lies on the edge of the values that were tried."""
    chosen, (low, high) = best[name], grid
    if chosen not in grid or (chosen == low and isinstance(chosen, int) and chosen in (0, 1)):
        return False
    own = next((t for t in sweep if all(t.get(key) == value for key, value in best.items())), None)
    between = [t for t in sweep if _is_number(t.get(name)) and low < t[name] < high and not t.get("error")]
    return own is None or not any(_is_as_good(trial, own) for trial in between)


def _is_as_good(trial: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a candidate was as good as another by its validation score, and by its loss if both have one."""
    score, reference = (next((t[key] for key in _SCORES if _is_number(t.get(key))), None) for t in (trial, other))
    if score is None or reference is None:
        return False
    loss, reference_loss = trial.get("log_loss"), other.get("log_loss")
    lower = loss is None or reference_loss is None or loss <= reference_loss
    return bool(score >= reference and lower)


def _setting(trial: Mapping[str, object], best: Mapping[str, object]) -> str:
    names = [name for name in trial if name in best] or [name for name in trial if name != "error"]
    return ", ".join(f"{name}={short_value(trial[name])}" for name in names)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    found = [counted(number, *NOUNS[kind]) for kind, number in losses.items() if number]
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
    missing = counted(len(model.missing), "tensor") + " missing from the checkpoint"
    unused = counted(len(model.unused), "unused tensor") + " in the checkpoint"
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


def record_lines(record: RunRecord, known: RunRecord | None = None) -> Iterator[str]:
    """Yield the full record as lines of text: its findings and every field, without what `known` states."""
    yield f"Findings: {'; '.join(record.findings()) or 'none, everything was used'}"
    yield from _lines({name: value for name, value in _values(record).items() if value != getattr(known, name, None)})
    for name, part in record.parts.items():
        yield f"{name}:"
        yield from (f"  {line}" for line in record_lines(part, record))


def _values(owner: object) -> dict[str, object]:
    """Return the fields of a record, or the entries of a mapping."""
    names = getattr(type(owner), "__dataclass_fields__", ())
    values = dict(owner) if isinstance(owner, Mapping) else {name: getattr(owner, name) for name in names}
    return {name: value for name, value in values.items() if name != "parts"}


def _lines(owner: object) -> Iterator[str]:
    for name, value in _values(owner).items():
        title = name.replace("_", " ")
        lines = [getattr(each, "text", str(each)) for each in value] if isinstance(value, tuple) else [*_lines(value)]
        if lines:
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)
        elif value not in (None, "", (), {}):
            yield f"{title}: {value}"


def short_value(value: object) -> str:
    """Return a hyper-parameter value with at most four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def counted(number: int, one: str, several: str = "") -> str:
    """Return a count with its noun, such as "1 model" or "4 models"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
