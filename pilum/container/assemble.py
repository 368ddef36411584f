"""Build Arrow arrays from decoded leaf columns.

Every leaf column repeats the nesting above it, so the layers of a struct or list are taken from
the first of its leaves that the file has; a member without a column is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import number_dtype
from pilum.container.packed import unpack
from pilum.encodings.base import Compressive, Decoded, DictionaryBlock, Layer, demand
from pilum.encodings.compressive.constant import Constant
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.fields import Field, FieldId
from pilum.format.paths import LeafPath

__all__ = ["assemble", "assemble_leaf", "assemble_member", "string_views"]

_OFFSET_BYTES = {
    pa.string().id: 4,
    pa.binary().id: 4,
    pa.large_string().id: 8,
    pa.large_binary().id: 8,
}
_VIEWS = frozenset({pa.string_view().id, pa.binary_view().id})
_MAX_VIEWED_BYTES = 2**31 - 1
_STRUCT, _NULL, _BOOLEAN = pa.struct([]).id, pa.null().id, pa.bool_().id
_DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id
_FIXED_SIZE_LIST = pa.list_(pa.int8(), 1).id
"""Types by their number: a function for each costs more than building small arrays."""


def assemble(field: Field, leaves: Mapping[FieldId, Decoded], num_rows: int) -> pa.Array:
    """Build the array of a top-level field from its leaves; those without a column are left out."""
    if field.has_struct_lists:
        paths = {path[-1].id: path for path in field.leaf_paths()}
        leaves = {leaf: _per_list(decoded, paths[leaf]) for leaf, decoded in leaves.items()}
    return _build(field, leaves, 0, num_rows)


def assemble_leaf(field: Field, decoded: Decoded, num_rows: int) -> pa.Array:
    """Build the array of a top-level field that has no child fields (the common case)."""
    if len(decoded.layers) != 1:
        raise CorruptFileError(f"field {field.name!r}: {len(decoded.layers)} layers")
    layer = decoded.layers[0]
    if layer.length != num_rows:
        raise _wrong_slots(field, num_rows, layer)
    return _leaf(field.arrow_type, decoded, layer)


def assemble_member(field: Field, decoded: Decoded, num_rows: int) -> pa.Array | None:
    """Build the array of a member of a top-level struct; None if the struct has nulls."""
    if len(decoded.layers) != 2:
        raise CorruptFileError(f"field {field.name!r}: {len(decoded.layers)} layers")
    layer, around = decoded.layers
    if layer.length != num_rows or around.length != num_rows:
        raise _wrong_slots(field, num_rows, layer)
    return None if around.null_count else _leaf(field.arrow_type, decoded, layer)


def _per_list(decoded: Decoded, path: LeafPath) -> Decoded:
    """Return the leaf with one slot per fixed-size list of structs, from that layer outward."""
    found = len(decoded.layers)
    demand(found == len(path), f"layers of field {path[0].name!r}: {found}, not {len(path)}")
    stride, layers = 1, []
    for field, layer in zip(reversed(path), decoded.layers, strict=True):
        stride *= field.list_size or 1
        layers.append(_every(layer, stride) if stride > 1 else layer)
    return decoded._replace(layers=layers)


def _every(layer: Layer, stride: int) -> Layer:
    """Return every `stride`-th slot: all elements of a list agree on the layers around it."""
    length, rest = divmod(layer.length, stride)
    demand(rest == 0 and layer.offsets is None, f"{layer.length} slots in lists of {stride}")
    if layer.validity is None:
        return Layer(length, None, 0, None)
    bits = np.unpackbits(layer.validity, count=layer.length, bitorder="little")[::stride]
    return Layer(length, np.packbits(bits, bitorder="little"), length - int(bits.sum()), None)


def _build(field: Field, leaves: Mapping[FieldId, Decoded], depth: int, length: int) -> pa.Array:
    if field.children:
        first = next((leaves[leaf.id] for leaf in field.leaves() if leaf.id in leaves), None)
    else:
        first = leaves.get(field.id)
    if first is None:
        return pa.nulls(length, field.arrow_type)
    if depth >= len(first.layers) or field.is_leaf != (depth + 1 == len(first.layers)):
        raise CorruptFileError(f"field {field.name!r}: {len(first.layers)} layers")
    layer = first.layers[-1 - depth]
    if layer.length != length:
        raise _wrong_slots(field, length, layer)
    if field.is_leaf:
        if field.is_struct and field.children:
            return _packed(field, first, layer)
        return _leaf(field.arrow_type, first, layer)
    demand(
        (layer.offsets is not None) == field.is_list, f"layer of field {field.name!r}: list or not"
    )
    if field.list_size is not None:
        items = _build(field.item, leaves, depth + 1, length * field.list_size)
        return _array(field.arrow_type, layer, [], [items])
    if not field.is_list:
        children = [_build(child, leaves, depth + 1, length) for child in field.children]
        return _array(field.arrow_type, layer, [], children)
    assert layer.offsets is not None
    items = _build(field.item, leaves, depth + 1, int(layer.offsets[-1]))
    if field.is_map:
        valid = items.null_count == 0 and items.field(0).null_count == 0
        demand(valid, f"entries of map {field.name!r}: null, or keys that are")
    large = pt.is_large_list(field.arrow_type)
    offsets: NDArray[Any] = layer.offsets.astype(np.int64) if large else layer.offsets
    return _array(field.arrow_type, layer, [offsets], [items])


def _wrong_slots(field: Field, length: int, layer: Layer) -> CorruptFileError:
    return CorruptFileError(
        f"slots of field {field.name!r}: expected {length}, found {layer.length}"
    )


def _array(
    kind: pa.DataType, layer: Layer, buffers: list[NDArray[Any]], children: list[pa.Array]
) -> pa.Array:
    validity = None if layer.validity is None else pa.py_buffer(layer.validity)
    all_buffers = [validity, *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(
        kind, layer.length, all_buffers, layer.null_count, children=children or None
    )


def _packed(field: Field, decoded: Decoded, layer: Layer) -> pa.Array:
    if decoded.num_values != layer.length and decoded.encoding is not None:
        raise CorruptFileError(f"rows: expected {layer.length}, found {decoded.num_values}")
    children = unpack(field, decoded.members or field.children, decoded, layer, _values)
    return _array(field.arrow_type, layer, [], children)


def _leaf(kind: pa.DataType, decoded: Decoded, layer: Layer) -> pa.Array:
    kind_id = kind.id
    if kind_id == _STRUCT:
        return pa.Array.from_buffers(kind, layer.length, [None], 0)
    if decoded.encoding is None or kind_id == _NULL:
        return pa.nulls(layer.length, kind)
    if decoded.num_values != layer.length:
        raise CorruptFileError(f"values: expected {layer.length}, found {decoded.num_values}")
    if kind_id == _DICTIONARY:
        return _dictionary(kind, decoded, layer)
    if decoded.dictionary is not None:
        return _look_up(kind, decoded, decoded.dictionary, layer)
    return _values(kind, decoded.encoding, decoded.buffers, layer)


def _values(
    kind: pa.DataType, encoding: Compressive | None, buffers: list[NDArray[Any]], layer: Layer
) -> pa.Array:
    kind_id = kind.id
    if kind_id == _FIXED_SIZE_LIST:
        if not isinstance(encoding, FixedSizeList):  # to format the type takes a microsecond
            raise CorruptFileError(f"values of type {kind}: not stored as lists")
        return _lists(kind, encoding, buffers, layer)
    if kind_id in _VIEWS:
        is_variable = len(buffers) == 2 and len(buffers[0]) == layer.length + 1
        demand(is_variable, f"values of type {kind}: stored in another way, {_sizes(buffers)}")
        return string_views(kind, layer, *buffers)
    width = _OFFSET_BYTES.get(kind_id)
    if width is None:
        if kind_id == _BOOLEAN and encoding == Flat(8) and len(buffers) == 1:
            buffers = [np.packbits(buffers[0], bitorder="little")]  # full-zip pages have no bits
        size = (layer.length * kind.bit_width + 7) // 8
        if len(buffers) != 1 or len(buffers[0]) != size:
            raise CorruptFileError(
                f"values of type {kind}, bytes: expected {size}, found {_sizes(buffers)}"
            )
    elif len(buffers) != 2 or buffers[0].itemsize != width or len(buffers[0]) != layer.length + 1:
        raise CorruptFileError(f"values of type {kind}: stored in another way, {_sizes(buffers)}")
    return _array(kind, layer, buffers, [])


def string_views(
    kind: pa.DataType,
    layer: Layer,
    offsets: NDArray[Any],
    data: NDArray[np.uint8],
) -> pa.Array:
    """Return views of adjacent strings, which begin at these offsets in the data.

    UnsupportedTypeError is raised if the data are longer than views can address.
    """
    _require_short(data)
    return _array(kind, layer, [kernels.views_of_strings(offsets, data), data], [])


def _require_short(data: NDArray[np.uint8]) -> None:
    if len(data) > _MAX_VIEWED_BYTES:
        raise UnsupportedTypeError(
            f"{len(data)} bytes of strings in one page, and views address less than 2 GiB; "
            "scan without strings_as"
        )


def _sizes(buffers: list[NDArray[Any]]) -> list[int]:
    return [buffer.nbytes for buffer in buffers]


def _lists(
    kind: pa.DataType, encoding: FixedSizeList, buffers: list[NDArray[Any]], layer: Layer
) -> pa.Array:
    """Build fixed-size lists from a mask per nullable item level (outer first) and the items."""
    *masks, items = buffers
    levels: list[tuple[pa.DataType, Layer]] = []
    item_type, length, inner = kind, layer.length, encoding
    slots = layer
    while True:
        if item_type.list_size != inner.items_per_value:
            raise CorruptFileError(f"items of {item_type}: found {inner.items_per_value}")
        levels.append((item_type, slots))
        length *= inner.items_per_value
        slots = _items_layer(length, masks.pop(0) if inner.has_validity else None)
        item_type = item_type.value_type
        if not isinstance(inner.values, FixedSizeList):
            break
        demand(pt.is_fixed_size_list(item_type), f"items of type {item_type}: stored as lists")
        inner = inner.values
    if isinstance(inner.values, Constant):
        array = pa.nulls(length, item_type)
    else:
        array = _values(item_type, inner.values, [items], slots)
    for list_type, above in reversed(levels):
        array = _array(list_type, above, [], [array])
    return array


def _items_layer(length: int, mask: NDArray[np.uint8] | None) -> Layer:
    if mask is None:
        return Layer(length, None, 0, None)
    demand(len(mask) == (length + 7) // 8, f"validity of items: {len(mask)} bytes for {length}")
    valid = int(np.unpackbits(mask, count=length, bitorder="little").sum())
    return Layer(length, mask, length - valid, None)


def _dictionary(kind: pa.DataType, decoded: Decoded, layer: Layer) -> pa.Array:
    """Build a dictionary array from the page's dictionary, with keys of the type's width."""
    if decoded.dictionary is None:
        values = _values(kind.value_type, decoded.encoding, decoded.buffers, layer)
        return values.dictionary_encode().cast(kind)
    if layer.length == 0:
        return pa.nulls(0, kind)
    dictionary = decoded.dictionary
    numbers = _numbers(decoded, dictionary, layer)
    key = number_dtype(kind.index_type)
    inside = int(numbers.max()) <= np.iinfo(key).max
    demand(inside, f"dictionary indices that are no {kind.index_type}")
    keys = numbers.view(key) if numbers.itemsize == key.itemsize else numbers.astype(key)
    indices = _array(kind.index_type, layer, [keys], [])
    return pa.DictionaryArray.from_arrays(indices, _entries(kind.value_type, dictionary))


def _look_up(
    kind: pa.DataType, decoded: Decoded, dictionary: DictionaryBlock, layer: Layer
) -> pa.Array:
    """Look up values by their index in the dictionary."""
    if layer.length == 0:
        return pa.nulls(0, kind)
    if kind.id in _OFFSET_BYTES:
        demand(len(dictionary.buffers) == 2, "a dictionary of strings with values of another type")
        strings = kernels.look_up_strings(
            decoded.buffers[0], _index_bytes(decoded, layer), layer.validity, *dictionary.buffers
        )
        return _values(kind, None, strings, layer)
    if kind.id in _VIEWS:
        demand(len(dictionary.buffers) == 2, "a dictionary of strings with values of another type")
        offsets, data = dictionary.buffers
        _require_short(data)
        own = data.copy()  # not a part of a larger read, which would stay in memory
        width = _index_bytes(decoded, layer)
        views = kernels.look_up_views(decoded.buffers[0], width, layer.validity, offsets, own)
        return _array(kind, layer, [views, own], [])
    entries = _entries(kind, dictionary)
    if kind.id != _BOOLEAN:
        width, size = _index_bytes(decoded, layer), kind.bit_width // 8
        words = kernels.look_up_words(decoded.buffers[0], width, dictionary.buffers[0], size)
        return _array(kind, layer, [words], [])
    numbers = _numbers(decoded, dictionary, layer)
    indices = _array(pa.from_numpy_dtype(numbers.dtype), layer, [numbers], [])
    return entries.take(indices)


def _entries(kind: pa.DataType, dictionary: DictionaryBlock) -> pa.Array:
    return _values(kind, None, dictionary.buffers, Layer(dictionary.num_values, None, 0, None))


def _numbers(decoded: Decoded, dictionary: DictionaryBlock, layer: Layer) -> NDArray[Any]:
    """Return indices into the dictionary, unsigned."""
    width = _index_bytes(decoded, layer)
    numbers: NDArray[Any] = decoded.buffers[0].view(f"u{width}")
    inside = int(numbers.max()) < dictionary.num_values
    demand(inside, f"dictionary indices beyond its {dictionary.num_values} values")
    return numbers


def _index_bytes(decoded: Decoded, layer: Layer) -> int:
    demand(len(decoded.buffers) == 1, "dictionary indices that are not numbers")
    width = len(decoded.buffers[0]) // layer.length
    demand(width in (1, 2, 4, 8), f"dictionary indices of {width} bytes")
    return width
