"""Functions that compute new columns, and what stores their results until they are committed."""

from pilum.dataset.udf import BatchUDF, Checkpoint, batch_udf

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]

BatchUDFCheckpoint = Checkpoint
