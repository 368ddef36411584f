"""Reading tables for training: shuffled, shared out to processes, and resumable. No framework."""

from pilum.training.arrays import numpy_columns
from pilum.training.cached import CachedDataset
from pilum.training.hugging_face import iterable_dataset
from pilum.training.loader import EpochState, Loader
from pilum.training.plan import EpochPlan, Shuffle, Uneven
from pilum.training.source import RowSource

__all__ = [
    "CachedDataset",
    "EpochPlan",
    "EpochState",
    "Loader",
    "RowSource",
    "Shuffle",
    "Uneven",
    "iterable_dataset",
    "numpy_columns",
]
