"""Public names of `unseen.run.executor`: run work in this process, in several processes or on a Dask cluster."""

from unseen.run.executor import ENGINES, Engine, make_engine

__all__ = ["ENGINES", "Engine", "make_engine"]
