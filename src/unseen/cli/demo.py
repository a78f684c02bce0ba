"""`unseen demo`: the study `demo`, with one sentence per question at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unseen.cli.options import Fields, Running
from unseen.cli.parser import made_late, with_parameters


def _make() -> Callable[..., None]:
    """Return the function of the command; options override extraction settings, as in `unseen run demo`."""
    from unseen.cli.run import overruled, run_and_report
    from unseen.features import Extraction
    from unseen.run.study import Study

    how = Fields(Extraction, "extraction", "Instead of the study's extraction settings", defaults=None)

    def body(values: dict[str, Any]) -> None:
        study = overruled(Study.read("demo"), how.given(values))
        run_and_report(study, Running.among(values), answers=True)

    return with_parameters([*Running.parameters(), *how.parameters()], body)


demo = made_late(_make)
