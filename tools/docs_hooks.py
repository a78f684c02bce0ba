"""Hooks of the documentation site: pages from the root of the repository, links to them, and unlisted pages.

CONTRIBUTING.md and CHANGELOG.md are pages of the site under their own names in small letters. A page of `docs/` that no
line of the navigation names (a new one, such as cluster.md) is added under "More", so that none is lost.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: What Material's offline search would fetch; the site has a copy.
SHIM = "https://unpkg.com/iframe-worker/shim"
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Files, config: Any) -> Files:
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r"\[([^]]+)\]\((?:bench|tools)/README\.md\)", r"`\1`", text)  # not part of the site
        text = re.sub(r"\]\(docs/", "](", text)
        text = re.sub(r"\]\(([A-Z]+\.md|[\w/]+/|[A-Z]+)\)", lambda m: f"]({_site(m[1])})", text)
        files.append(File.generated(config, page, content=text))
    named = set(_named(config.nav or []))
    more = [
        f.src_uri for f in files.documentation_pages() if f.src_uri not in named and not f.src_uri.startswith("adr/")
    ]
    if more and config.nav is not None:
        config.nav.append({"More": sorted(more)})
    decisions = sorted(
        (f.src_uri for f in files.documentation_pages() if f.src_uri.startswith("adr/")), key=_index_first
    )
    if decisions and config.nav is not None:
        config.nav.append({"Decisions": decisions})
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ lead to the pages of the site; folders lead to their first page."""
    if page.file.src_uri in PAGES:
        return markdown
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)+(CONTRIBUTING|CHANGELOG)\.md", lambda m: f"]({up}{m[1].lower()}.md", markdown)
    markdown = markdown.replace("contributing.md#adding-a-)", "contributing.md#adding-a)")  # as the site writes anchors
    return markdown.replace("](adr/)", "](adr/index.md)")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    return output.replace(SHIM, f"{'../' * page.url.count('/')}assets/iframe-worker.js")


def on_post_template(output_content: str, **_: Any) -> str:
    return output_content.replace(SHIM, "assets/iframe-worker.js")


def _site(target: str) -> str:
    return next((page for page, source in PAGES.items() if source == target), target)


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [name for part in parts for name in _named(part)]


def _index_first(page: str) -> tuple[bool, str]:
    return not page.endswith("index.md"), page
