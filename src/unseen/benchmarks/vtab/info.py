"""Metadata of VTAB."""

from __future__ import annotations

from dataclasses import replace

from unseen.results.info import COMMON, BenchmarkInfo

#: The benchmark whose accuracy on ImageNet is compared with VTAB's (Figure 18 of the paper).
IMAGENET_BENCHMARK = "probe"

VTAB = BenchmarkInfo(
    title="VTAB",
    question="How well does the model adapt to unseen tasks with few labels?",
    command="vtab run",
    sentence="""Adaptation to unseen tasks follows VTAB: from 1,000 labelled examples of each task, or as many as it
        has, by {adaptation}; settings of the {sweep} sweep were chosen on validation examples, then trained again on
        all""",
    citations=("vtab",),
    metrics=tuple(replace(style, aggregate="median") for style in COMMON),
    tables="unseen.benchmarks.vtab.ranking:vtab_tables",
    section="unseen.benchmarks.vtab.section:vtab_section",
)
