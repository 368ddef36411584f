"""A table that is larger than memory, through Spark: `python -m bench.scale`."""

from bench.scale.steps import Settings, Step, measure

__all__ = ["Settings", "Step", "measure"]
