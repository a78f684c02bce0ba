"""What was done, in a paragraph for a paper: said from the parameters that the cells themselves carry.

A benchmark has a sentence with the names of its parameters in braces. A parameter that takes several values lists them
all; whatever no sentence names is listed by name and value, so that nothing that moves a number goes unsaid.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.results.comparability import SEED, current, value_text

#: By benchmark: a sentence whose braces are parameters.
_SENTENCES: Mapping[str, str] = {
    "probe": """Linear separability of frozen features ({layer} layer) was measured with the {solver} classifier,
        trained on {shots} images per class; hyper-parameters were chosen on validation images only ({validation}),
        never on test images""",
    "cog": """Concept generalization follows ImageNet-CoG: the {solver} classifier on frozen features ({layer} layer)
        was trained separately on each of the domains {level}, with {shots} images per class; concepts seen in
        training are those of {seen}, levels are cut by the measure {measure}""",
    "cog-finetune": """Networks were fine-tuned on domains cut as in ImageNet-CoG""",
    "zsl": """Zero-shot learning follows the protocol of Xian et al. with the split {split}: the methods {method} were
        fitted on {layer} features of seen classes and class embeddings ({embedding}), their parameters chosen on
        validation classes ({grid} grid)""",
    "clip": """Images were classified by the nearest text embedding of their class names""",
    "vtab": """Adaptation to unseen tasks follows VTAB: from 1,000 labelled examples of each task, or as many as it
        has, by {adaptation}; settings of the {sweep} sweep were chosen on validation examples, then trained again on
        all""",
    "rank": """Checkpoints were ranked before any fine-tuning by the scores {score}, computed on {layer} features of
        the {split} images""",
}
#: By benchmark, the keys of the papers that it follows.
_PAPERS = {"cog": "cog", "cog-finetune": "cog", "zsl": "gbu", "clip": "clip", "vtab": "vtab", "rank": "neucrab"}


def method_paragraphs(
    results: Iterable[Result], names: Mapping[str, str] | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """Per benchmark, a paragraph and the keys of the papers to cite with it (`unseen.benchmarks.bibliography`).

    Args:
        names: what datasets are to be called; those missing keep their ids.
    """
    by_benchmark: dict[str, list[Result]] = {}
    for result in current(results):
        if result.ok:
            by_benchmark.setdefault(result.cell.benchmark, []).append(result)
    return [(_paragraph(name, own, names or {}), papers_of(name)) for name, own in sorted(by_benchmark.items())]


def _paragraph(benchmark: str, results: Sequence[Result], names: Mapping[str, str]) -> str:
    values = _values(results)
    sentence = " ".join(_SENTENCES.get(benchmark, f"The benchmark {benchmark} was run").split())
    named = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
    if not named <= values.keys():  # results of an older version lack a parameter: say only what they carry
        sentence, named = f"The benchmark {benchmark} was run", set()
    told = [f"{sentence.format(**values)}."]
    others = [f"{name} {text}" for name, text in values.items() if name not in named and name != SEED]
    if others:
        told.append(f"Other settings: {'; '.join(others)}.")
    told.append(_counts(results, values.get(SEED), names))
    versions = sorted({result.cell.version for result in results if result.cell.version})
    packages = sorted({result.environment["unseen"] for result in results if "unseen" in result.environment})
    made = f"unseen {_listed(packages)}" if packages else "unseen"
    told.append(f"Computed with {made}{f', protocol and method versions {_listed(versions)}' if versions else ''}.")
    return " ".join(told)


def _counts(results: Sequence[Result], seeds: str | None, names: Mapping[str, str]) -> str:
    models = {result.cell.model for result in results}
    datasets = sorted({names.get(result.cell.dataset, result.cell.dataset) for result in results})
    text = f"{len(models)} {'model' if len(models) == 1 else 'models'} on {_listed(datasets)}"
    tested = sorted({n for r in results if isinstance(n := r.details.get("test_images"), int)})
    if tested:
        text += f" ({tested[0]:,}{f' to {tested[-1]:,}' if len(tested) > 1 else ''} test images)"
    skipped = max((_skipped(result) for result in results), default=0)
    text += f", {skipped:,} unreadable images left out" if skipped else ""
    if seeds is not None:
        text += f"; {'seed' if ' ' not in seeds else 'seeds'} {seeds}"
    return f"{text}."


def _skipped(result: Result) -> int:
    noted = result.details.get("skipped", {})
    if isinstance(noted, Mapping):
        return sum(len(each) if isinstance(each, Mapping | list | tuple) else 1 for each in noted.values())
    return len(noted) if isinstance(noted, list | tuple) else 0


def _values(results: Sequence[Result]) -> dict[str, str]:
    """By parameter, every value that occurs, as a study would write them."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        for name, value in sorted(_flat(result.cell.parameters).items()):
            found.setdefault(name, {}).setdefault(canonical_json(value), value)
    return {name: _listed([_said(value) for value in _sorted(list(each.values()))]) for name, each in found.items()}


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else value_text(value) or "none"


def _sorted(values: Sequence[Any]) -> list[Any]:
    """Numbers by size, before words; and so within words."""

    def key(value: Any) -> tuple[bool, float, list[tuple[str, int]]]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        words = [] if number else re.findall(r"(\D*)(\d{0,15})", str(value))
        return not number, float(value) if number else 0.0, [(text, int(digits or 0)) for text, digits in words]

    return sorted(values, key=key)


def _flat(parameters: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        found |= _flat(value, f"{above}{name} ") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def papers_of(benchmark: str) -> tuple[str, ...]:
    """The keys of the papers that a benchmark follows."""
    return (_PAPERS[benchmark],) if benchmark in _PAPERS else ()
