"""Counts of the requests of this process to local files and object stores."""

from pilum.storage.base import IOStats, bytes_read_counter, iops_counter

__all__ = ["IOStats", "bytes_read_counter", "iops_counter"]
