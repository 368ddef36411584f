"""Dictionaries of a legacy table: one per field, shared by all files, stored in each manifest.

    manifest file   values of the dictionaries, then the contents of any other manifest file
                    ▲
    Field.dictionary of the manifest      position and number of the values

Each data file also has its dictionary, as far as it was known when the file was finished. Values
are only added at the end, so that keys never change their meaning. The dictionary of the table is
therefore the longest one, and all others must be prefixes of it. Source: docs/format/legacy.md,
"Dictionaries".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from pilum.container.open import open_file
from pilum.errors import InvalidInputError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import file_pb2, table_pb2
from pilum.format.schema import Schema
from pilum.storage.base import Source, Store, run_plan
from pilum.table.model.base_paths import data_file_place
from pilum.table.model.fragment import Fragment
from pilum.table.model.manifest import Manifest

__all__ = ["append_dictionaries", "load_dictionaries", "with_dictionaries_of_files"]

if TYPE_CHECKING:  # few processes read a legacy table
    from pilum.container.legacy.file import LegacyFile

Values = Mapping[FieldId, pa.Array]


def load_dictionaries(manifest: Manifest, message: table_pb2.Manifest, source: Source) -> Manifest:
    """Return the manifest with the dictionary values that its file contains."""
    fields = _dictionary_fields(manifest)
    places = {item.id: item.dictionary for item in message.fields if item.dictionary.length}
    values = {
        field.id: _load(field, places[field.id], source) for field in fields if field.id in places
    }
    return _with_values(manifest, values) if values else manifest


def _load(field: Field, place: file_pb2.Dictionary, source: Source) -> pa.Array:
    from pilum.container.legacy.page_kinds import read_values

    return run_plan(read_values(field.arrow_type.value_type, place, source.size), source)


def append_dictionaries(manifest: Manifest, message: table_pb2.Manifest, body: bytearray) -> None:
    """Append the values to the start of a manifest file; record their positions in the message."""
    values = {field.id: field.dictionary for field in _dictionary_fields(manifest)}
    if not values:
        return
    from pilum.container.legacy.page_kinds import encode_values

    for item in message.fields:
        own = values.get(FieldId(item.id))
        if own is not None:
            data, position = encode_values(own, len(body))
            body += data
            item.dictionary.offset, item.dictionary.length = position, len(own)


def with_dictionaries_of_files(
    store: Store, manifest: Manifest, fragments: Iterable[Fragment]
) -> Manifest:
    """Return the manifest with dictionaries that also contain the values of new fragments.

    InvalidInputError is raised if the dictionary of a file is neither a prefix nor an extension.
    """
    fields = _dictionary_fields(manifest)
    if not fields:
        return manifest
    from pilum.container.legacy.file import LegacyFile

    values = {field.id: field.dictionary for field in fields if field.dictionary is not None}
    for fragment in fragments:
        for file in fragment.files:
            wanted = [field for field in fields if field.id in file.fields]
            if not wanted:
                continue
            place, path = data_file_place(store, file)
            source = place.source(path, file.size_bytes)
            try:
                reader = open_file(source)
                assert isinstance(reader, LegacyFile)
                for field in wanted:
                    values[field.id] = _longest(field, values.get(field.id), reader, file.path)
            finally:
                source.close()
    return _with_values(manifest, values)


def _longest(field: Field, known: pa.Array | None, file: LegacyFile, path: str) -> pa.Array:
    found = file.dictionary(field)
    shorter, longer = sorted((found if known is None else known, found), key=len)
    if not longer.slice(0, len(shorter)).equals(shorter):
        raise InvalidInputError(
            f"column {field.name!r}: the dictionary of {path} is not that of the table, and a "
            "table of version 0.1 has one for all of its files; write them together"
        )
    return longer


def _dictionary_fields(manifest: Manifest) -> list[Field]:
    return [field for field in manifest.schema.walk() if pt.is_dictionary(field.arrow_type)]


def _with_values(manifest: Manifest, values: Values) -> Manifest:
    fields = tuple(_field_with(field, values) for field in manifest.schema.fields)
    return replace(manifest, schema=Schema(fields, manifest.schema.metadata))


def _field_with(field: Field, values: Values) -> Field:
    children = tuple(_field_with(child, values) for child in field.children)
    return replace(field, dictionary=values.get(field.id, field.dictionary), children=children)
