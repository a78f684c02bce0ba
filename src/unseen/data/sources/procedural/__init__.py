"""Images that are drawn, not downloaded: `procedural:sprites-*` and `procedural:shapes-*`."""

from unseen.data.sources.procedural.sprites import render_sprites

__all__ = ["render_sprites"]
