"""Encode Arrow dictionary arrays: the keys become the values of a page with that dictionary.

Such columns always get mini-block pages (or constant pages, if all values are null), and the keys
keep their width. The format represents nulls by levels only, so nulls within a dictionary are first
converted to nulls of the column. Source: docs/format/encodings-2.1.md, "Dictionary".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.blocks import FixedBlock, block_of
from pilum.encodings.candidates import Choice
from pilum.encodings.dictionary import dictionary_of
from pilum.encodings.fixed import choose_fixed
from pilum.encodings.options import EncodingOptions
from pilum.encodings.page import Candidate
from pilum.format.version import FileVersion

__all__ = [
    "dictionary_below",
    "dictionary_choice",
]


def dictionary_choice(
    leaf: pa.DictionaryArray, version: FileVersion, options: EncodingOptions
) -> Choice:
    """Return the keys and their dictionary.

    The dictionary is kept in its order. If it has more values than there are keys, values without a
    key are left out.

    Args:
        leaf: An array with at least one value that is not null, and no null in the dictionary.
        version: File version.
        options: The requested encoding options.
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
    """Return the used values, in the order of the dictionary, and the keys to these."""
    used = np.zeros(len(values), dtype=np.bool_)
    used[keys.drop_null().to_numpy()] = True
    places = pa.array(np.maximum(np.cumsum(used) - 1, 0)).cast(keys.type)
    return places.take(keys), values.filter(pa.array(used))


def dictionary_below(chain: pa.Array) -> pa.Array | None:
    """Return the dictionary of the leaf of a chain (see `pilum.levels`), if it has one."""
    while not pt.is_dictionary(chain.type):
        if chain.type.num_fields == 0:
            return None
        chain = chain.field(0) if pt.is_struct(chain.type) else chain.values
    return chain.dictionary
