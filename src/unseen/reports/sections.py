"""One file per section of the page.

`SECTIONS` holds the builder of each benchmark that has a section of its own; any other is shown by `scores`, so that no
result ever goes unshown. To add one: a file here with a `SectionBuilder`, and a line below. Plug-ins add theirs by
the entry point group `unseen.report_sections`.
"""

from __future__ import annotations

from unseen.core.registry import Registry
from unseen.reports.blocks import SectionBuilder

SECTIONS: Registry[SectionBuilder] = Registry("report section", "unseen.report_sections")

DEFAULT_SECTION = "probe"
SECTIONS.add(DEFAULT_SECTION, "unseen.reports.scores:scores_section")
SECTIONS.add("cog", "unseen.benchmarks.cog.section:cog_section")
SECTIONS.add("cog-finetune", "unseen.benchmarks.cog.finetune_section:cog_finetune_section")
SECTIONS.add("zsl", "unseen.benchmarks.zsl.section:zsl_section")
SECTIONS.add("vtab", "unseen.benchmarks.vtab.section:vtab_section")
SECTIONS.add("rank", "unseen.benchmarks.rank.section:rank_section")
SECTIONS.add("neucrab", "unseen.benchmarks.rank.neucrab_section:neucrab_section")
