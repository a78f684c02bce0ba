"""What a page carries and the browser unpacks when it is asked for: results, charts, pictures.

Each is JSON, compressed by gzip and written in base64, inside a <script> that no browser runs. Of ten thousand results
a few megabytes remain; CSV and JSON files are made from them in the browser. Equal parts are held once.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.reports.blocks import Material
from unseen.results.export import to_json
from unseen.results.styles import headline_first, metric_style

#: Characters of a detail's JSON; lists of every concept or image stay in the database.
_LARGEST_DETAIL = 600
_PICTURE = re.compile(r'"(data:image/(?:jpeg|png);base64,[A-Za-z0-9+/=]+)"')


def packed(value: Any) -> str:
    """JSON values as base64 of gzip: safe inside a <script>, the same text for the same value."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")


class Pictures:
    """Pictures of a page, each once; whoever shows one names it by its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, address: str) -> int:
        return self.numbers.setdefault(address, len(self.numbers))

    def taken_out(self, value: Any) -> str:
        """A JSON value as text, with "picture:7" in place of each picture."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return _PICTURE.sub(lambda found: f'"picture:{self.number(found.group(1))}"', text)


def result_data(material: Material, anchors: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All results for the browser: parts that many share are held once and named by their number."""
    shared: dict[str, int] = {}
    parts: list[Any] = []

    def once(value: Any) -> int:
        key = canonical_json(value)
        if key not in shared:
            shared[key] = len(parts)
            parts.append(value)
        return shared[key]

    def entry(result: Result) -> dict[str, Any]:
        cell = result.cell
        found: dict[str, Any] = {
            "id": cell.id,
            "cell": cell.to_dict() | {"parameters": once(_strict(dict(cell.parameters)))},
            "metrics": _strict(dict(result.metrics)),
            "seconds": result.seconds,
            "environment": once(_strict(dict(result.environment))),
            "command": material.command(cell),
            "cite": once(list(citations(material, result))),
        }
        found |= {"error": result.error} if result.error else {}
        found |= {"recorded": result.recorded} if result.recorded else {}
        found |= {"sweep": once(_strict([dict(trial) for trial in result.sweep]))} if result.sweep else {}
        small = {name: value for name, value in result.details.items() if _is_small(value)}
        return found | ({"details": once(_strict(small))} if small else {})

    results = [entry(result) for result in material.results]
    return {"results": results, "parts": parts, "styles": _styles(material.results), "names": material.names}


def citations(material: Material, result: Result) -> list[str]:
    """What to cite for one number: the protocol and its methods, the model, the data, and this package."""
    cell = result.cell
    version = result.environment.get("unseen", "")
    cards = (material.cards.get(cell.model), material.dataset_cards.get(cell.dataset))
    named = [getattr(card, "citation", "") for card in cards]
    return list(dict.fromkeys(text for text in (*material.papers(cell), *named, f"unseen {version}".strip()) if text))


def _styles(results: Sequence[Result]) -> dict[str, list[list[Any]]]:
    """By benchmark: its metrics, the one to judge by first, each with its title and whether it is a share."""
    names: dict[str, set[str]] = {}
    for result in results:
        names.setdefault(result.cell.benchmark, set()).update(result.metrics)
    return {
        benchmark: [[n, metric_style(n, benchmark).title, metric_style(n, benchmark).percent] for n in ordered]
        for benchmark, found in names.items()
        if (ordered := headline_first(found, benchmark))
    }


def _strict(value: Any) -> Any:
    """Without numbers that JSON has no text for."""
    return json.loads(to_json(value, indent=None))


def _is_small(value: Any) -> bool:
    if isinstance(value, str | list | tuple | Mapping) and len(value) > _LARGEST_DETAIL // (
        1 if isinstance(value, str) else 2
    ):
        return False  # without a look at a thousand concepts
    return len(to_json(value, indent=None)) <= _LARGEST_DETAIL
