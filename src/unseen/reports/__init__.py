"""Toolkit for pages: blocks, charts, wording, the HTML file. Independent of benchmarks."""

from unseen.reports.page import make_page
from unseen.reports.theme import save_chart

__all__ = ["make_page", "save_chart"]
