"""Full-text indices of releases before 0.30: one partition, whose postings are rows of a table.

    docs.lance     row = document           _rowid u64, _num_tokens u32, in any order
    tokens.lance   row = token              _token utf8, _token_id u32
                   metadata   tokenizer     parameters as JSON
    invert.lance   row = entry, those of    _rowid u64, _frequency f32, _position list<i32>
                   token 0 first
                   metadata   offsets       [0,126,260], the first entry of each token

An index is converted when it is opened, and then is in memory as a whole. Optimising writes it in
the present form. Source: docs/format/indices.md, "INVERTED", "Old layout".
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import ROW_ID, Documents, Partition
from pilum.index.inverted.posting_rows import MadeRows
from pilum.index.inverted.tokens import TokenSet
from pilum.kernels import Entries, GrowingLists

__all__ = ["has_old_layout", "open_old_layout"]

_DOCUMENTS, _TOKENS, _ENTRIES = "docs.lance", "tokens.lance", "invert.lance"
_PARAMETERS, _STARTS = "tokenizer", "offsets"
_FREQUENCY, _POSITION = "_frequency", "_position"


def has_old_layout(folder: IndexFolder) -> bool:
    """Return whether the files of a segment are those of an old release."""
    return all(map(folder.has, (_DOCUMENTS, _TOKENS, _ENTRIES)))


def open_old_layout(folder: IndexFolder) -> tuple[InvertedParameters, Partition]:
    """Return the parameters and the documents of an index.

    Raises:
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If the index does not say how it cuts texts.
    """
    tokens, entries = folder.open(_TOKENS), folder.open(_ENTRIES)
    documents = _sorted(Documents.read(folder.open(_DOCUMENTS)))
    stored = tokens.metadata.get(_PARAMETERS)
    if stored is None:
        raise UnsupportedFeatureError(
            f"{tokens.path}: a full-text index of a release that stored no parameters; create the "
            "index again"
        )
    token_set = TokenSet.from_table(tokens.read())
    try:
        grouped, has_positions = _grouped(entries, documents, len(token_set))
    except CorruptFileError as error:
        raise error.at(entries.path) from None
    rows = MadeRows.of(grouped, documents.lengths, has_positions=has_positions)
    parameters = replace(InvertedParameters.from_json(stored), with_position=has_positions)
    return parameters, Partition(documents, token_set, rows, entries.path)


def _sorted(documents: Documents) -> Documents:
    order = np.argsort(documents.references, kind="stable")
    return Documents(documents.references[order], documents.lengths[order])


def _grouped(file: IndexFile, documents: Documents, num_tokens: int) -> tuple[Entries, bool]:
    """Return the entries of all tokens, and whether they have positions."""
    names = [ROW_ID, _FREQUENCY, *({_POSITION} & set(file.schema.names))]
    columns = [column.combine_chunks() for column in file.read(names).columns]
    references = _numbers(columns[0], pa.uint64())
    tokens = np.repeat(
        np.arange(num_tokens, dtype=np.uint32), _counts(file, num_tokens, len(references))
    )
    known = documents.references
    numbers = known.searchsorted(references)
    is_known = known[np.minimum(numbers, max(len(known) - 1, 0))] == references
    if not is_known.all():
        raise CorruptFileError("entries of unknown documents")
    frequencies = _frequencies(columns[1])
    order = np.argsort(numbers, kind="stable")
    positions = None
    if len(columns) == 3:
        positions = _positions(columns[2], frequencies, order)
    ends = np.cumsum(np.bincount(numbers, frequencies, len(known))).astype(np.int64)
    occurrences = np.repeat(tokens[order], frequencies[order])
    lists = GrowingLists(positions is not None)
    lists.add(occurrences, positions, ends)
    return lists.entries(np.arange(num_tokens, dtype=np.uint32)), positions is not None


def _counts(file: IndexFile, num_tokens: int, num_entries: int) -> NDArray[np.int64]:
    """Return the number of entries of each token."""
    try:
        starts = np.array(json.loads(file.metadata[_STARTS]), np.int64)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise CorruptFileError(f"metadata of entries: {error}") from error
    counts = np.diff(starts, append=num_entries)
    is_valid = starts.shape == (num_tokens,) and not starts[:1].any() and bool((counts > 0).all())
    if not is_valid:
        raise CorruptFileError(f"starts of {len(counts)} tokens in {num_entries} entries")
    return counts


def _frequencies(array: pa.Array) -> NDArray[np.int64]:
    stored = _numbers(array, pa.float32())
    if not ((stored >= 1) & (stored < 2**24) & (np.trunc(stored) == stored)).all():
        raise CorruptFileError("frequencies that are no counts")
    return stored.astype(np.int64)


def _positions(
    array: pa.Array, frequencies: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the positions of all occurrences, in another order of the entries."""
    if not pt.is_list(array.type) or array.null_count:
        raise CorruptFileError(f"{_POSITION}: expected lists without nulls, found {array.type}")
    if not np.array_equal(np.diff(array.offsets.to_numpy()), frequencies):
        raise CorruptFileError("as many positions as occurrences are expected")
    found = _numbers(array.take(pa.array(order)).flatten(), pa.int32())
    if len(found) and found.min() < 0:
        raise CorruptFileError("negative positions")
    return found.astype(np.uint32)


def _numbers(array: pa.Array, kind: pa.DataType) -> NDArray[Any]:
    if array.type != kind or array.null_count:
        raise CorruptFileError(f"expected {kind} without nulls, found {array.type}")
    return np.asarray(array.to_numpy())
