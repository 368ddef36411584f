"""Partitions that several tasks write for one segment, and their merge.

    _indices/{uuid}/staging/part_{number}_docs.lance, …       documents, tokens and posting lists
    _indices/{uuid}/staging/part_{number}_metadata.lance      as metadata.lance, of this partition

    number     id of a fragment << 32 | number of the partition among those of the task

The merge writes one partition and `metadata.lance` into the folder of the segment, and deletes the
staged files. Those that cannot be deleted remain until the segment is cleaned up. A folder is
merged only once: a second merge would replace the segment by what is left.
Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from pilum.errors import InvalidInputError, NotFoundError
from pilum.format.rows import Addresses
from pilum.index.base import IndexRows
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.inverted.building import spill
from pilum.index.inverted.merging import merge_partitions
from pilum.index.inverted.metadata import METADATA_FILE, InvertedMetadata
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import Partition, file_names, open_partition

__all__ = ["STAGING", "merge_staged", "stage"]

STAGING = "staging"

_METADATA = re.compile(r"part_([0-9]{1,19})_metadata\.lance")


def stage(
    rows: IndexRows, parameters: InvertedParameters, fragment_id: int, folder: IndexFolderWriter
) -> None:
    """Write the partitions of a task.

    Args:
        rows: The rows of its fragments.
        parameters: Parameters of the index.
        fragment_id: Id of one of its fragments.
        folder: The staging folder.
    """
    for number in spill(rows.batches, parameters, folder, fragment_id << 32):
        InvertedMetadata.write(folder, [number], parameters, f"part_{number}_metadata.lance")


def merge_staged(staged: IndexFolder, folder: IndexFolderWriter) -> None:
    """Merge all staged partitions into one and delete them.

    An error leaves the staged partitions as they are.

    Args:
        staged: The staging folder.
        folder: The folder of the segment.

    Raises:
        NotFoundError: If there are none.
        InvalidInputError: If tasks had different parameters or the same rows, or the folder is
            merged already.
        CorruptFileError: If a file is damaged.
    """
    found = sorted(filter(None, map(_METADATA.fullmatch, staged.store.names(staged.path))), key=_of)
    if not found:
        raise NotFoundError(f"no staged partitions in {staged.path}")
    if METADATA_FILE in folder.store.names(folder.path):
        raise InvalidInputError(
            f"the partitions in {folder.path} are merged already: commit them, or stage all parts "
            "again with another index_uuid"
        )
    described = [InvertedMetadata.read(staged, one.string) for one in found]
    parameters = described[0].parameters
    if any(one.parameters != parameters for one in described):
        raise InvalidInputError(f"partitions in {staged.path} have different parameters")
    numbers = [(number, one.entries) for one in described for number in one.partitions]
    parts = {number: open_partition(staged, number, entries) for number, entries in numbers}
    if len(parts) < len(numbers) or _share_rows(parts):
        raise InvalidInputError(
            f"several partitions in {staged.path} have the same rows, as tasks had the same "
            "fragments: stage all parts again with another index_uuid"
        )
    merge_partitions([(one, None) for one in parts.values()], parameters, folder, 0)
    InvertedMetadata.write(folder, [0], parameters)
    names = [one.string for one in found]
    for name in (*names, *(name for number, _ in numbers for name in file_names(number))):
        with suppress(OSError):  # the merged segment is complete
            staged.store.delete(f"{staged.path}/{name}")


def _share_rows(parts: Mapping[int, Partition]) -> bool:
    """Return whether a row is in partitions of several tasks."""
    references: dict[int, list[Addresses]] = {}
    for number, partition in parts.items():
        references.setdefault(number >> 32, []).append(partition.documents.references)
    tasks = [np.unique(np.concatenate(own)) for own in references.values()]
    rows = np.sort(np.concatenate([np.empty(0, np.uint64), *tasks]))
    return bool((rows[1:] == rows[:-1]).any())


def _of(name: re.Match[str]) -> int:
    return int(name[1])
