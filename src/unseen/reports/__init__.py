"""Toolkit for pages: blocks, charts, wording, the HTML file. It knows no benchmark."""

from unseen.reports.page import make_page, write_page
from unseen.reports.theme import save_chart

__all__ = ["make_page", "save_chart", "write_page"]
