"""Convert the nesting of one leaf column to repetition and definition levels.

A *chain* is an Arrow array in which every struct has one member: the path from a top-level column
to one leaf (`chain_of`). `ravel` splits it into the array of the leaf and its `Levels`. Layers are
ordered inner-most first, and level 0 is "valid" or "goes on", as in the format:

    code  layer                     definition levels, counted outward from 1
    1     item, all valid           none
    2     list, no null, no empty   none
    3     item with nulls           null
    4     list with nulls           null
    5     list with empties         empty
    6     list with both            null, then empty

Everything below a struct or a fixed-size list with nulls is nullable, too, down to the next list,
because a reader of a member alone looks at its own layer. No entry has the level of a layer without
own nulls. Below a struct with nulls that is in a list, all lists are nullable. The reference does
not write them so, and miscounts the structs where the inner-most list has no level.

A fixed-size list of structs is an item layer that has no repetition: all its elements carry the
levels of their list, and the layers around it are repeated for each of them.

Source: docs/format/encodings-2.1.md, "Levels".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.arrays import filtered, list_offsets, without_null_values
from pilum.blocks import number_values, validity_mask
from pilum.format.paths import LeafPath

__all__ = ["ALL_VALID", "NULLABLE", "Levels", "chain_of", "ravel", "shown_items"]

_ALL_VALID_ITEM, _NULLABLE_ITEM = 1, 3
_NO_LEVELS = np.empty(0, dtype=np.uint16)
_ONE_VALID_LAYER = bytes([_ALL_VALID_ITEM])


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of some rows of a leaf column.

    Attributes:
        codes: Kind of each layer, inner-most first.
        rep: uint16, one per entry; empty without lists.
        def_: uint16, one per entry; empty if all entries are valid.
        num_entries: Values, plus one per list without items.
        num_visible: Entries that own a value.
        max_rep: Repetition level that starts a row.
        max_def: Highest definition level.
        max_visible: Highest definition level of an entry that owns a value.
    """

    codes: bytes
    rep: NDArray[np.uint16]
    def_: NDArray[np.uint16]
    num_entries: int
    num_visible: int
    max_rep: int
    max_def: int
    max_visible: int

    @property
    def nullable_items(self) -> tuple[bool, ...]:
        """Whether each layer is items with nulls, outer-most first."""
        return tuple(code == _NULLABLE_ITEM for code in reversed(self.codes))

    @property
    def row_starts(self) -> NDArray[np.int64]:
        """The first entry of every row."""
        if self.max_rep == 0:
            return np.arange(self.num_entries, dtype=np.int64)
        return np.flatnonzero(self.rep == self.max_rep)


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer, as Arrow stores it: the bitmap with its first bit, and the offsets of lists.

    `validity` is None if no slot has a null of its own. `is_nullable` is whether the layer has a
    level for nulls, even if no entry has it.
    """

    validity: tuple[NDArray[np.uint8], int] | None
    offsets: NDArray[np.int64] | None
    has_empty: bool
    is_nullable: bool

    @property
    def code(self) -> int:
        if self.offsets is None:
            return _NULLABLE_ITEM if self.is_nullable else _ALL_VALID_ITEM
        return {(False, False): 2, (True, False): 4, (False, True): 5, (True, True): 6}[
            (self.is_nullable, self.has_empty)
        ]


def chain_of(array: pa.Array, path: LeafPath) -> pa.Array:
    """Return the chain of one leaf: the array with only the members on the path to it."""
    if len(path) == 1:
        return without_null_values(array) if pt.is_dictionary(array.type) else array
    if pt.is_struct(array.type):
        index = array.type.get_field_index(path[1].name)
        if index < 0:  # the entries of a map, whose members may have any names
            index = path[0].children.index(path[1])
        child = chain_of(array.field(index), path[1:])
        kind = pa.struct([pa.field(path[1].name, child.type)])
        if array.offset:
            return _rebased_struct(array, child, kind)
        validity = array.buffers()[0]
        return pa.Array.from_buffers(
            kind, len(array), [validity], array.null_count, children=[child]
        )
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        mask = array.is_null() if array.null_count else None
        return pa.FixedSizeListArray.from_arrays(chain_of(items, path[1:]), size, mask=mask)
    offsets = list_offsets(array)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    items = chain_of(array.values.slice(first, last - first), path[1:])
    if first or array.offset:
        offsets = _minus(offsets, first)  # Arrow cannot build a masked list from a slice of them.
    make = pa.LargeListArray if pt.is_large_list(array.type) else pa.ListArray
    mask = array.is_null() if array.null_count else None
    return make.from_arrays(offsets, items, mask=mask)


def _rebased_struct(array: pa.Array, child: pa.Array, kind: pa.DataType) -> pa.Array:
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([child], fields=list(kind), mask=mask)


def _minus(offsets: pa.Array, first: int) -> pa.Array:
    return pa.array(offsets.to_numpy() - first, offsets.type)


def ravel(
    chain: pa.Array, num_layers: int | None = None, as_if_null: Sequence[bool] = ()
) -> tuple[Levels, pa.Array]:
    """Split a chain into levels and an array of the `num_visible` leaf values.

    Args:
        chain: The column.
        num_layers: How many layers it has, if the leaf is a struct that is stored as one value.
        as_if_null: Which layers, outer-most first, get levels as if they had a null; none if empty.
    """
    if chain.type.num_fields == 0 and chain.null_count == 0:
        return _all_valid(len(chain)), chain
    layers, leaf, count = _peel(chain, num_layers, as_if_null)
    codes = bytes(layer.code for layer in reversed(layers))
    nulls, empties, reps, max_def, max_visible = _number(layers)
    max_rep = max(reps)
    if max_rep == 0 and max_def == 0:
        return Levels(codes, _NO_LEVELS, _NO_LEVELS, count, count, 0, 0, 0), leaf
    steps = [
        (
            layer.validity,
            nulls[i],
            None if layer.offsets is None else (layer.offsets, reps[i], empties[i]),
        )
        for i, layer in enumerate(layers)
    ]
    rep, def_, visible = kernels.ravel(steps, count)
    levels = Levels(
        codes,
        rep if max_rep else _NO_LEVELS,
        def_ if max_def else _NO_LEVELS,
        len(rep),
        visible,
        max_rep,
        max_def,
        max_visible,
    )
    return levels, leaf


ALL_VALID = Levels(_ONE_VALID_LAYER, _NO_LEVELS, _NO_LEVELS, 0, 0, 0, 0, 0)
"""The levels of no rows of a column without lists and nulls."""

NULLABLE = Levels(bytes([_NULLABLE_ITEM]), _NO_LEVELS, _NO_LEVELS, 0, 0, 0, 1, 1)
"""The levels of no rows of a column with nulls, but without lists; a null has the level 1."""


@lru_cache(maxsize=64)
def _all_valid(count: int) -> Levels:
    """Return the levels of a column without lists and nulls; cached, as most columns have these."""
    return Levels(_ONE_VALID_LAYER, _NO_LEVELS, _NO_LEVELS, count, count, 0, 0, 0)


def _peel(
    chain: pa.Array, num_layers: int | None, as_if_null: Sequence[bool]
) -> tuple[list[_Layer], pa.Array, int]:
    """Return the layers, outer-most first, the leaf, and the slots of the outer-most layer."""
    layers: list[_Layer] = []
    array, alive, count, below_null = chain, None, len(chain), False
    in_list = all_lists_nullable = False
    while True:
        depth = len(layers)
        below_null = below_null or (bool(as_if_null) and as_if_null[depth])
        is_leaf = depth + 1 == num_layers
        if pt.is_struct(array.type) and array.type.num_fields and not is_leaf:
            layers.append(_item_layer(array, below_null))
            alive = _alive(array, alive)
            below_null = layers[-1].is_nullable
            all_lists_nullable |= below_null and in_list
            array = array.field(0)
        elif pt.is_fixed_size_list(array.type) and pt.is_struct(array.type.value_type):
            size = array.type.list_size
            layers.append(_item_layer(array, below_null))
            alive = _alive(array, alive)
            layers = [_repeated(layer, count, size) for layer in layers]
            alive = None if alive is None else np.repeat(alive, size)
            array = array.values.slice(array.offset * size, len(array) * size)
            count *= size
            below_null = layers[-1].is_nullable
        elif pt.is_list(array.type) or pt.is_large_list(array.type):
            layer, array = _peel_list(array, alive, below_null or all_lists_nullable)
            layers.append(layer)
            alive, below_null, in_list = None, False, True
        else:
            layers.append(_item_layer(array, below_null))
            return layers, array, count


def _item_layer(array: pa.Array, below_null: bool) -> _Layer:
    validity = _validity(array)
    return _Layer(validity, None, False, below_null or validity is not None)


def _alive(array: pa.Array, alive: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return which slots are neither null nor below a null; None for all."""
    if not array.null_count:
        return alive
    valid = validity_mask(array)
    return valid if alive is None else alive & valid


def _repeated(layer: _Layer, length: int, times: int) -> _Layer:
    """Return the layer with each of its slots repeated."""
    if layer.validity is None:
        return layer
    bitmap, first = layer.validity
    bits = np.unpackbits(bitmap, count=first + length, bitorder="little")[first:]
    return replace(layer, validity=(np.packbits(np.repeat(bits, times), bitorder="little"), 0))


def _peel_list(
    array: pa.Array, alive: NDArray[np.bool_] | None, as_if_null: bool
) -> tuple[_Layer, pa.Array]:
    alive = _alive(array, alive)
    offsets, has_empty, items = shown_items(array, alive)
    validity = _list_validity(array, alive)
    return _Layer(validity, offsets, has_empty, as_if_null or validity is not None), items


def shown_items(
    array: pa.Array, alive: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], bool, pa.Array]:
    """Drop the items of lists, at least one, that are not `alive` (bool; all are if None).

    Returns:
        Offsets of the lists from 0 on, whether one that is alive is empty, and the items.
    """
    stored = number_values(list_offsets(array))
    shown = None if alive is None else alive.view(np.uint8)
    offsets, has_empty, wanted = kernels.shown_offsets(stored, shown)
    first = int(stored[0])
    items = array.values.slice(first, int(stored[-1]) - first)
    if wanted is not None:
        # Arrow allows items below a null, but the format cannot store them.
        mask = pa.Array.from_buffers(pa.bool_(), len(items), [None, pa.py_buffer(wanted)])
        items = _filtered(items, mask)
    return offsets, has_empty, items


def _filtered(items: pa.Array, wanted: pa.BooleanArray) -> pa.Array:
    if pt.is_struct(items.type) and items.type.num_fields:
        # Arrow is slow with structs as a whole.
        members = [_filtered(items.field(i), wanted) for i in range(items.type.num_fields)]
        nulls = items.is_null().filter(wanted) if items.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(items.type), mask=nulls)
    return filtered(items, wanted)


def _list_validity(
    array: pa.Array, alive: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint8], int] | None:
    """Return the validity of lists; those below a null struct are null too.

    The reference would otherwise miscount.
    """
    if array.null_count or alive is None:
        return _validity(array)
    return np.packbits(alive, bitorder="little"), 0


def _validity(array: pa.Array) -> tuple[NDArray[np.uint8], int] | None:
    if array.null_count == 0:
        return None
    if pt.is_null(array.type):
        return np.zeros((len(array) + 7) // 8, dtype=np.uint8), 0
    return np.frombuffer(array.buffers()[0], np.uint8), array.offset


def _number(layers: list[_Layer]) -> tuple[list[int], list[int], list[int], int, int]:
    """Assign numbers to the levels of layers.

    The result is the null, empty and repetition level per layer (outer-most first), and the highest
    and the visible level.
    """
    nulls, empties, reps = ([0] * len(layers) for _ in range(3))
    level = rep = visible = 0
    for i, layer in reversed(list(enumerate(layers))):
        if layer.offsets is not None:
            visible = level if rep == 0 else visible
            rep += 1
            reps[i] = rep
        if layer.is_nullable:
            level += 1
            nulls[i] = level
        if layer.has_empty:
            level += 1
            empties[i] = level
    return nulls, empties, reps, level, visible if rep else level
