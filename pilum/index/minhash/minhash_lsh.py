"""MINHASHLSH: signatures of texts, and a sorted table of the keys of their bands.

    signatures.lance    a row for each text with tokens: a document; its row is its number

| column | type | |
|---|---|---|
| `_rowid` | uint64 | the row: its address or stable row id |
| `signature` | fixed_size_list<uint16>[num_hashes] | full-zip, not compressed |

    bands.lance         num_bands rows for each document, in the order of keys, then of documents

| column | type | |
|---|---|---|
| `band_key` | uint64 | band in the upper 8 bits, hash of its values in the others; not compressed |
| `doc_id` | uint32 | the document; not compressed |

A signature is made as follows; integers have 64 bits and wrap around:

    shingles      shingle_size adjacent tokens, joined by 0x1f; of fewer tokens there is one
    x             XXH64 of a shingle, seed 42
    a, b, c       drawn from SplitMix64 with the state 42: a | 1 and b of each hash in turn, then
                  c | 1 of each
    signature     (c * the least a * x + b) >> 48
    band_key      band << 56 | lower 56 bits of XXH64 of its values, little-endian, seed 42

The metadata of both files contains `minhash_lsh_details`, the message of the details in hexadecimal
digits, and `minhash_lsh_index_version`, 0; that of bands.lance also `minhash_lsh_num_docs`,
`minhash_lsh_page_rows`, 4096, and `minhash_lsh_page_table_buffer`: the number of the global buffer
with the key of the last row of each page, uint64.

Source: docs/format/indices.md, "MINHASHLSH".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.index.base import REFERENCE, VALUE, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.minhash.index import MinHashIndex
from pilum.index.minhash.parameters import MinHashParameters
from pilum.index.minhash.signatures import Signatures, Signer
from pilum.index.minhash.writing import BANDS_FILE, SIGNATURES_FILE, SegmentWriter
from pilum.parallel import InOrder

__all__ = ["MINHASH_LSH"]

_ROWS_OF_TASK = 4096


class _MinHashLshType(IndexType[MinHashIndex]):
    """See the module."""

    name = "MINHASHLSH"
    type_url = "/lance.index.pb.MinHashLshIndexDetails"
    references = References.ROW_IDS
    files = (SIGNATURES_FILE, BANDS_FILE)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """See `IndexType.require_supported`."""
        if not (pt.is_string(type) or pt.is_large_string(type)):
            raise UnsupportedTypeError(
                f"MINHASHLSH index column {column} must be a string, not {type}"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> MinHashParameters:
        """See `IndexType.parameters`."""
        del type
        return MinHashParameters.from_keywords(given)

    def described(self, details: bytes) -> dict[str, Any]:
        """See `IndexType.described`."""
        return MinHashParameters.from_details(details).described()

    def require_same_parameters(self, details: Collection[bytes]) -> None:
        """See `IndexType.require_same_parameters`: only signatures of one kind are compared."""
        if len({MinHashParameters.from_details(one) for one in details}) > 1:
            raise InvalidInputError(
                "the segments of an index of near duplicates must have the same parameters; build "
                "them again"
            )

    def train(
        self, rows: IndexRows, parameters: MinHashParameters, folder: IndexFolderWriter
    ) -> bytes:
        """See `IndexType.train`."""
        with SegmentWriter(folder, parameters, rows.num_rows) as writer:
            _sign(rows, parameters, writer)
        return parameters.to_details()

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> MinHashIndex:
        """See `IndexType.open`."""
        del index_version
        return MinHashIndex(folder, MinHashParameters.from_details(details))

    def merge(
        self,
        parts: Sequence[Part[MinHashIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """See `IndexType.merge`.

        Raises:
            InvalidInputError: If the segments have different parameters.
        """
        parameters = parts[-1].index.parameters
        self.require_same_parameters([part.index.parameters.to_details() for part in parts])
        most_rows = sum(part.index.num_documents for part in parts)
        most_rows += 0 if rows is None else rows.num_rows
        with SegmentWriter(folder, parameters, most_rows) as writer:
            for part in parts:
                _copy(part, writer)
            if rows is not None:
                _sign(rows, parameters, writer)
        return parameters.to_details()


MINHASH_LSH = _MinHashLshType()


def _sign(rows: IndexRows, parameters: MinHashParameters, writer: SegmentWriter) -> None:
    """Write the signatures of rows."""
    signer = Signer(parameters)
    tasks = InOrder[None, Signatures](lambda _, found: writer.add(found))
    try:
        for batch in rows.batches:
            texts, references = batch.column(VALUE), batch.column(REFERENCE).to_numpy()
            for first in range(0, batch.num_rows, _ROWS_OF_TASK):
                own = texts.slice(first, _ROWS_OF_TASK)
                task = partial(signer.sign, own, references[first : first + _ROWS_OF_TASK])
                tasks.add(None, task, own.nbytes, is_hard=True)
        tasks.finish()
    finally:
        tasks.cancel()


def _copy(part: Part[MinHashIndex], writer: SegmentWriter) -> None:
    """Write the signatures of a segment whose rows still exist."""
    for references, values in part.index.signatures():
        if part.moves is not None:
            references, exist = part.moves(references)
            references, values = references[exist], values[exist]
        writer.add(Signatures.stored(references, values, part.index.parameters))
