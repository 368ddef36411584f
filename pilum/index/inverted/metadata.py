"""The file that describes a full-text index.

    metadata.lance    1 row       deleted_fragments  binary    32-bit Roaring, always empty so far
                      metadata    partitions         [0,1]
                                  params             parameters as JSON (`parameters.py`)
                                  token_set_format   fst, or arrow (also if absent)
                                  and how posting lists are stored (`posting_rows.py`)

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.writing import codec_metadata

__all__ = ["METADATA_FILE", "InvertedMetadata"]

METADATA_FILE = "metadata.lance"

_DELETED, _PARTITIONS, _PARAMS = "deleted_fragments", "partitions", "params"
_FORMAT_VERSION, _TOKEN_SET_FORMAT = "format_version", "token_set_format"


@dataclass(frozen=True)
class InvertedMetadata:
    """The description of an index.

    Attributes:
        partitions: The numbers of its partitions.
        parameters: Its parameters.
        deleted: Fragments whose rows are not to be found.
        entries: All metadata.
    """

    partitions: Sequence[int]
    parameters: InvertedParameters
    deleted: BitMap
    entries: Mapping[str, str]

    @classmethod
    def read(cls, folder: IndexFolder, name: str = METADATA_FILE) -> InvertedMetadata:
        """Read the description from the file of a name.

        Raises:
            NotFoundError: If the file does not exist.
            CorruptFileError: If it is damaged.
            UnsupportedFeatureError: If a parameter is not supported.
        """
        file = folder.open(name)
        entries = dict(file.metadata)
        try:
            numbers = json.loads(entries[_PARTITIONS])
            version = int(entries.get(_FORMAT_VERSION) or 1)
            parameters = InvertedParameters.from_json(entries[_PARAMS], version)
        except InvalidInputError as error:
            raise UnsupportedFeatureError(f"{file.path}: {error}") from error
        except (KeyError, ValueError) as error:
            raise CorruptFileError(f"metadata of a full-text index: {error}", file.path) from error
        are_numbers = isinstance(numbers, list) and all(type(one) is int for one in numbers)
        if not are_numbers or len(set(numbers)) < len(numbers):
            raise CorruptFileError(f"partitions {numbers!r}", file.path)
        deleted = BitMap()
        if _DELETED in file.schema.names:
            for stored in file.read([_DELETED])[_DELETED].to_pylist():
                deleted |= _fragments(stored, file.path)
        return cls(numbers, parameters, deleted, entries)

    @staticmethod
    def write(
        folder: IndexFolderWriter,
        partitions: Sequence[int],
        parameters: InvertedParameters,
        name: str = METADATA_FILE,
    ) -> None:
        """Write the description of a new index to the file of a name."""
        schema = pa.schema([pa.field(_DELETED, pa.binary(), False)])
        table = pa.table([[BitMap().serialize()]], schema=schema)
        entries = {
            _PARTITIONS: json.dumps(list(partitions), separators=(",", ":")),
            _PARAMS: parameters.to_json(),
            _TOKEN_SET_FORMAT: "fst",
            **codec_metadata(parameters),
        }
        folder.write(name, table, entries)


def _fragments(stored: bytes | None, path: str) -> BitMap:
    try:
        return BitMap.deserialize(stored or b"")
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"deleted fragments: {error}", path) from error
