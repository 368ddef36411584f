"""Arrow dictionary arrays as pages: their keys are the values of a page that has their dictionary.

Such columns always get mini-block pages (or constant ones, where all is null), and the keys keep
their width. Formats and readers know nulls by their levels only, so nulls that hide in a dictionary
become nulls of the column first. Source: docs/format/encodings-2.1.md, "Dictionary".
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.blocks import FixedBlock, block_of
from pilum.encodings.candidates import Choice
from pilum.encodings.dictionary import dictionary_of
from pilum.encodings.fixed import choose_fixed
from pilum.encodings.options import EncodingOptions
from pilum.encodings.page import Candidate
from pilum.errors import UnsupportedTypeError
from pilum.format.retype import retyped
from pilum.format.version import FileVersion

__all__ = [
    "dictionary_below",
    "dictionary_choice",
    "has_dictionaries",
    "join_arrays",
    "without_null_values",
]


def dictionary_choice(
    leaf: pa.DictionaryArray, version: FileVersion, options: EncodingOptions
) -> Choice:
    """Keys and their dictionary.

    The dictionary stays as it is, in its order, unless it has more values than there are keys:
    then what no key names is left out.

    Args:
        leaf: At least one value that is not null; no null in the dictionary.
        version: Of the file.
        options: What is asked for.
    """
    keys, values = leaf.indices, leaf.dictionary
    if len(values) > len(keys):
        keys, values = _used(keys, values)
    block = block_of(keys)
    assert isinstance(block, FixedBlock)
    dictionary = dictionary_of(block_of(values), version, options)
    choice = choose_fixed(block, options)
    total = choice.size_bytes + len(dictionary.data)
    candidates = (Candidate("dictionary", total, "of the column's type"), *choice.candidates)
    return Choice(block, choice.encoding, candidates, total, dictionary)


def _used(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Keys to only those values that any of them names, in the order of the dictionary."""
    used = np.zeros(len(values), dtype=np.bool_)
    used[keys.drop_null().to_numpy()] = True
    places = pa.array(np.maximum(np.cumsum(used) - 1, 0)).cast(keys.type)
    return places.take(keys), values.filter(pa.array(used))


def without_null_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values with a null only where a key is null."""
    values = array.dictionary
    if values.null_count == 0:
        return array
    valid = values.is_valid()
    places = pc.cumulative_sum(valid.cast(pa.int64()))
    keys = pc.if_else(valid, pc.subtract(places, 1), pa.scalar(None, pa.int64()))
    keys = keys.cast(array.indices.type).take(array.indices)
    return pa.DictionaryArray.from_arrays(keys, values.drop_null())


def dictionary_below(chain: pa.Array) -> pa.Array | None:
    """The dictionary of the leaf of a chain (see `pilum.levels`), if it has one."""
    while not pt.is_dictionary(chain.type):
        if chain.type.num_fields == 0:
            return None
        chain = chain.field(0) if pt.is_struct(chain.type) else chain.values
    return chain.dictionary


def join_arrays(arrays: list[pa.Array], what: str) -> pa.Array:
    """One array of several; dictionaries in them, at any depth, are united.

    Args:
        arrays: At least one, all of one type.
        what: Whose values they are, for the message.

    Raises:
        UnsupportedTypeError: If the keys are too narrow for all values, or if a dictionary in a
            list or struct has nulls, as files of version 2.0 may have them.
    """
    if len(arrays) == 1:
        return arrays[0]
    kind = arrays[0].type
    plain = _without_half_floats(kind)
    if plain != kind:
        return retyped(join_arrays([retyped(array, plain) for array in arrays], what), kind)
    try:
        return cast("pa.Array", pa.concat_arrays(arrays))
    except pa.ArrowInvalid as error:
        message, joined = str(error), None
        if "dictionaries with nulls" in message and pt.is_dictionary(kind):
            joined = _joined_by_value(arrays, kind)
        elif "larger index type" not in message and "dictionaries with nulls" not in message:
            raise
        if joined is None:
            raise UnsupportedTypeError(
                f"{what}: a dictionary with nulls, or whose keys are too narrow for the values of "
                f"these rows together; read fewer rows at a time ({error})"
            ) from error
        return joined


def _joined_by_value(arrays: list[pa.Array], kind: pa.DictionaryType) -> pa.Array | None:
    """The values with a new dictionary, which Arrow 26 does not unite; None if keys are lacking."""
    values = pa.concat_arrays([array.cast(kind.value_type) for array in arrays])
    try:
        return cast("pa.Array", values.dictionary_encode().cast(kind))
    except pa.ArrowInvalid:
        return None


def has_dictionaries(kind: pa.DataType) -> bool:
    """Whether a type is a dictionary, or has one below it."""
    below = (has_dictionaries(kind.field(i).type) for i in range(kind.num_fields))
    return pt.is_dictionary(kind) or any(below)


def _without_half_floats(kind: pa.DataType) -> pa.DataType:
    """The type with integers for half floats in dictionaries, which Arrow 26 unites wrongly."""
    if pt.is_dictionary(kind) and pt.is_float16(kind.value_type):
        return pa.dictionary(kind.index_type, pa.int16(), kind.ordered)
    if not has_dictionaries(kind) or pt.is_dictionary(kind):
        return kind
    fields = [kind.field(i) for i in range(kind.num_fields)]
    fields = [field.with_type(_without_half_floats(field.type)) for field in fields]
    if pt.is_struct(kind):
        return pa.struct(fields)
    if pt.is_map(kind):
        return pa.map_(*fields[0].type)
    if pt.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.list_(fields[0]) if pt.is_list(kind) else pa.large_list(fields[0])
