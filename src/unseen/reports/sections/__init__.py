"""One file per section of the page.

`SECTIONS` holds the builder of each benchmark that has a section of its own; any other is shown by `scores`, so that no
result ever goes unshown. To add one: a file here with a `SectionBuilder`, and a line below. Plug-ins add theirs by
the entry point group `unseen.report_sections`.
"""

from __future__ import annotations

from unseen.registry import Registry
from unseen.reports.blocks import SectionBuilder

SECTIONS: Registry[SectionBuilder] = Registry("report section", "unseen.report_sections")

DEFAULT_SECTION = "probe"
SECTIONS.add(DEFAULT_SECTION, "unseen.reports.sections.scores:scores_section")
SECTIONS.add("cog", "unseen.reports.sections.cog:cog_section")
SECTIONS.add("cog-finetune", "unseen.reports.sections.cog_finetune:cog_finetune_section")
SECTIONS.add("zsl", "unseen.reports.sections.gbu:gbu_section")
SECTIONS.add("vtab", "unseen.reports.sections.vtab:vtab_section")
SECTIONS.add("rank", "unseen.reports.sections.rank:rank_section")
SECTIONS.add("neucrab", "unseen.reports.sections.neucrab:neucrab_section")
