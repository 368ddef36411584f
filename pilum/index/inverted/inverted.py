"""Full-text indices: which documents contain which words, how often and where.

    train    rows ──▶ partitions of bounded memory ──▶ merged into one     (`building`, `merging`)
    open     metadata.lance, then documents and tokens of each partition   (`metadata`, `partition`)
             or the files of an old release                               (`old_layout`)
    search   queries of words ──▶ rows with scores                         (`columns`, `search`)
    merge    partitions of segments and new rows ──▶ one partition

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import (
    InvalidInputError,
    MissingDependencyError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.index.base import IndexRows, IndexType, Moves, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.inverted.building import spill
from pilum.index.inverted.index import InvertedIndex
from pilum.index.inverted.merging import merge_partitions
from pilum.index.inverted.metadata import METADATA_FILE, InvertedMetadata
from pilum.index.inverted.old_layout import has_old_layout, open_old_layout
from pilum.index.inverted.parameters import TYPE_URL, InvertedParameters
from pilum.index.inverted.partition import Partition, file_names, open_partition

__all__ = ["INVERTED"]

_TEXTS = (pt.is_string, pt.is_large_string)
_LISTS = (pt.is_list, pt.is_large_list)
_JSON = "arrow.json"


class _Inverted(IndexType[InvertedIndex]):
    """Full-text indices. The version of the index is that of the format of its postings."""

    name = "INVERTED"
    type_url = TYPE_URL
    references = References.ROW_IDS
    files = (METADATA_FILE,)

    def index_version(self, *, has_stable_row_ids: bool, details: bytes = b"") -> int:
        """Return the version of the index format; indices of list elements have the last one."""
        del has_stable_row_ids
        parameters = InvertedParameters.from_details(details)
        return 3 if parameters.list_elements else parameters.format_version

    def references_of(self, index_version: int) -> References | None:
        """Return what identifies a row in segments of a version; None if it is not supported."""
        return References.ROW_IDS if index_version <= 3 else None

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        leaf = type
        while any(test(leaf) for test in _LISTS):
            leaf = leaf.value_type
        if not any(test(leaf) for test in _TEXTS) and not _is_json(leaf):
            raise UnsupportedTypeError(
                f"INVERTED index column {column} has type {type}; expected strings, lists of "
                "strings, or JSON"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> InvertedParameters:
        """Check the keywords of `create_scalar_index`."""
        found = InvertedParameters.from_keywords(given, is_json=_is_json(type))
        if found.list_elements and not any(test(type) for test in _LISTS):
            raise InvalidInputError(
                f"document_granularity='list_element' needs a column of lists, not of {type}"
            )
        return found

    def default_name(self, column: str, parameters: InvertedParameters) -> str:
        """Return the name of an index that is given none; that of list elements says so."""
        return f"{column}_list_element_idx" if parameters.list_elements else f"{column}_idx"

    def described(self, details: bytes) -> dict[str, Any]:
        """Return the parameters in the details, by the names of the reference."""
        return InvertedParameters.from_details(details).stored()

    def train(
        self, rows: IndexRows, parameters: InvertedParameters, folder: IndexFolderWriter
    ) -> bytes:
        """Analyse the rows and write them."""
        return _write([], rows, parameters, folder)

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> InvertedIndex:
        """Open a segment: read its documents and tokens."""
        if has_old_layout(folder):
            parameters, partition = open_old_layout(folder)
            return _opened(parameters, [partition])
        metadata = InvertedMetadata.read(folder)
        elements = bool(details) and InvertedParameters.from_details(details).list_elements
        parameters = replace(metadata.parameters, list_elements=elements)
        entries = metadata.entries
        partitions = [open_partition(folder, number, entries) for number in metadata.partitions]
        return _opened(parameters, partitions)

    def merge(
        self,
        parts: Sequence[Part[InvertedIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """Merge the partitions of segments and new rows into one partition."""
        old = [(one, part.moves) for part in parts for one in part.index.partitions]
        return _write(old, rows, parts[-1].index.parameters, folder)


INVERTED = _Inverted()


def _opened(parameters: InvertedParameters, partitions: Sequence[Partition]) -> InvertedIndex:
    """Return an index, if this machine can analyse its texts as it does.

    A package that is not installed matters only to what analyses texts, which reports it.
    """
    index = InvertedIndex(parameters, partitions)
    try:
        with suppress(MissingDependencyError):
            index.analyzer  # noqa: B018 - the index keeps it
    except InvalidInputError as error:
        raise UnsupportedFeatureError(str(error)) from error
    return index


def _write(
    old: Sequence[tuple[Partition, Moves | None]],
    rows: IndexRows | None,
    parameters: InvertedParameters,
    folder: IndexFolderWriter,
) -> bytes:
    new = [] if rows is None else spill(rows.batches, parameters, folder, int(bool(old)))
    if old or len(new) > 1:
        new = _merged(old, new, parameters, folder)
    InvertedMetadata.write(folder, new, parameters)
    return parameters.to_details()


def _merged(
    old: Sequence[tuple[Partition, Moves | None]],
    spilled: Sequence[int],
    parameters: InvertedParameters,
    folder: IndexFolderWriter,
) -> list[int]:
    """Merge partitions and delete the spilled ones; return the number of the new one."""
    entries: dict[str, str] = {}
    parts = list(old)
    parts += [(open_partition(folder.written(), one, entries), None) for one in spilled]
    number = max(spilled, default=-1) + 1
    merge_partitions(parts, parameters, folder, number)
    for one in spilled:
        folder.delete(file_names(one))
    return [number]


def _is_json(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _JSON
