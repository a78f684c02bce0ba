"""Where the work is done: here, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

from unseen.engines.engine import ENGINES, Engine, make_engine

__all__ = ["ENGINES", "Engine", "make_engine"]
