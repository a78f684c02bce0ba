"""Images that are drawn, not downloaded: `procedural:sprites-*` and `procedural:shapes-*`."""

from unseen.data.procedural.source import SOURCE
from unseen.data.procedural.sprites import render_sprites

__all__ = ["SOURCE", "render_sprites"]
