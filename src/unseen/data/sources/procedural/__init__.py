"""Images that are drawn, not downloaded: `procedural:sprites-*` and `procedural:shapes-*`."""

from unseen.data.sources.procedural.source import SOURCE
from unseen.data.sources.procedural.sprites import render_sprites

__all__ = ["SOURCE", "render_sprites"]
