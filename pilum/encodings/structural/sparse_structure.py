"""The structure of sparse pages: positions of nulls and lists, without levels (version 2.3).

Layers lie from the outermost to the leaf. Each maps the slots of a domain to those of the next one:

    [[1], null, [], [2, null]]      list    non-empty 0 3, counts 1 2, null 1       4 slots to 3
                                    leaf    null 2                                  3 slots

A set of positions lists either the null slots or the valid ones. Positions and counts are sequences
of u64. Some are described without a payload:

    constant(v)    range(start, step)    delta(base, deltas)   its payload is that of the deltas

The payloads are buffers in the order of the layers: positions and counts of a list, then validity.
Source: docs/format/encodings-2.1.md, "Version 2.3".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import Children, Layer, demand
from pilum.errors import UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges

__all__ = ["Structure", "num_payloads"]

_MOST_SLOTS = 1 << 24
"""Positions of a page are in memory for any read of it; a page of the reference has 8 MiB."""

_MOST_DELTA = 1 << 34
_NULL_POSITIONS = pb.SparseValiditySet.NULL_POSITIONS
_VALID_POSITIONS = pb.SparseValiditySet.VALID_POSITIONS

Payloads = Iterator[NDArray[np.uint8]]


def num_payloads(layers: Sequence[pb.SparseStructuralLayer]) -> int:
    """Return the number of buffers that positions and counts have."""
    return sum(_has_payload(sequence) for layer in layers for sequence in _sequences(layer))


def _sequences(layer: pb.SparseStructuralLayer) -> tuple[pb.CompressiveEncoding, ...]:
    arm = layer.WhichOneof("layer")
    if arm == "validity":
        return (layer.validity.positions,)
    if arm == "list":
        found = layer.list
        return found.non_empty_positions, found.counts, found.validity.positions
    if arm == "fixed_size_list":
        raise UnsupportedFormatError("a sparse page of fixed-size lists of structs")
    demand(False, "sparse page: a layer without a kind")
    return ()


def _has_payload(sequence: pb.CompressiveEncoding) -> bool:
    arm = sequence.WhichOneof("compression")
    if arm == "rle" and not (
        sequence.rle.values.HasField("flat") and sequence.rle.run_lengths.HasField("flat")
    ):
        raise UnsupportedFormatError("a sparse page with compressed runs is not supported")
    return _has_payload(sequence.delta.deltas) if arm == "delta" else arm not in _DESCRIBED


@dataclass(frozen=True, slots=True)
class _Validity:
    """The slots of a domain that are null, or those that are not; int64, ascending."""

    positions: NDArray[np.int64]
    are_null: bool

    @classmethod
    def read(
        cls, message: pb.SparseValiditySet, size: int, payloads: Payloads, children: Children
    ) -> _Validity:
        demand(
            message.meaning in (_NULL_POSITIONS, _VALID_POSITIONS), "sparse page: unknown validity"
        )
        positions = _positions(message.positions, message.num_positions, size, payloads, children)
        return cls(positions, message.meaning == _NULL_POSITIONS)

    def of(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether slots, ascending, are valid."""
        _, is_listed = _places(self.positions, slots)
        return ~is_listed if self.are_null else is_listed

    def ranks(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of valid slots before each of some slots."""
        listed = np.searchsorted(self.positions, slots)
        return slots - listed if self.are_null else listed

    def count(self, size: int) -> int:
        """Return the number of valid slots of a domain."""
        return size - len(self.positions) if self.are_null else len(self.positions)


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists of a domain.

    Attributes:
        positions: The lists with items, int64, ascending.
        starts: The first item of each of them, and the number of items, int64.
        validity: Which lists are null.
    """

    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    validity: _Validity

    @classmethod
    def read(
        cls, message: pb.SparseListLayer, size: int, payloads: Payloads, children: Children
    ) -> _Lists:
        count = message.num_non_empty_positions
        _require_few(message.num_child_slots)
        positions = _positions(message.non_empty_positions, count, size, payloads, children)
        counts = _sequence(message.counts, count, payloads, children)
        demand(bool((counts > 0).all()), "sparse page: a list of no items among those with some")
        small = int(counts.max(initial=0)) <= _MOST_SLOTS
        demand(small, "sparse page: a list of more items than slots")
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        demand(
            starts[-1] == message.num_child_slots,
            f"sparse page, items: expected {message.num_child_slots}, found {starts[-1]}",
        )
        validity = _Validity.read(message.validity, size, payloads, children)
        demand(bool(validity.of(positions).all()), "sparse page: a null list with items")
        return cls(positions, starts, validity)

    def ranges(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first item of each of some lists, and the one after the last; shape (n, 2)."""
        at, has_items = _places(self.positions, slots)
        bounds = np.zeros((len(slots), 2), np.int64)
        bounds[has_items, 0] = self.starts[at[has_items]]
        bounds[has_items, 1] = self.starts[at[has_items] + 1]
        return bounds


@dataclass(frozen=True, slots=True)
class Structure:
    """The layers of a page, outermost first, and its number of leaf slots."""

    layers: tuple[_Validity | _Lists, ...]
    num_slots: int

    @classmethod
    def read(
        cls,
        layers: Sequence[pb.SparseStructuralLayer],
        num_rows: int,
        payloads: Payloads,
        children: Children,
    ) -> Structure:
        """Read the layers of a page from its payloads."""
        _require_few(num_rows)
        size, found = num_rows, list[_Validity | _Lists]()
        for layer in layers:
            if layer.WhichOneof("layer") == "validity":
                found.append(_Validity.read(layer.validity, size, payloads, children))
            else:
                found.append(_Lists.read(layer.list, size, payloads, children))
                size = layer.list.num_child_slots
        if not found or isinstance(found[-1], _Lists):
            found.append(_Validity(np.empty(0, np.int64), are_null=True))
        return cls(tuple(found), size)

    @property
    def leaf(self) -> _Validity:
        """Return which leaf slots are null."""
        last = self.layers[-1]
        assert isinstance(last, _Validity)
        return last

    def project(self, rows: RowRanges) -> tuple[list[Layer], NDArray[np.int64]]:
        """Return the layers of some rows, inner-most first, and their leaf slots, ascending."""
        slots, found = rows.rows(), list[Layer]()
        for layer in self.layers:
            if isinstance(layer, _Validity):
                found.append(_layer(layer.of(slots), None))
                continue
            bounds = layer.ranges(slots)
            offsets = np.concatenate(
                (np.zeros(1, np.int64), np.cumsum(bounds[:, 1] - bounds[:, 0]))
            )
            found.append(_layer(layer.validity.of(slots), offsets.astype(np.int32)))
            slots = RowRanges(bounds[bounds[:, 0] < bounds[:, 1]]).rows()
        return found[::-1], slots


def _require_few(num_slots: int) -> None:
    """Raise UnsupportedFormatError if the positions of a layer could need too much memory."""
    if num_slots > _MOST_SLOTS:
        raise UnsupportedFormatError(
            f"a sparse page of {num_slots} slots; at most {_MOST_SLOTS} are supported"
        )


def _layer(valid: NDArray[np.bool_], offsets: NDArray[np.int32] | None) -> Layer:
    num_nulls = len(valid) - int(np.count_nonzero(valid))
    bitmap = np.packbits(valid, bitorder="little") if num_nulls else None
    return Layer(len(valid), bitmap, num_nulls, offsets)


def _places(
    positions: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where slots are among positions, and whether they are."""
    at = np.searchsorted(positions, slots)
    is_listed = np.zeros(len(slots), np.bool_)
    within = at < len(positions)
    is_listed[within] = positions[at[within]] == slots[within]
    return at, is_listed


def _positions(
    message: pb.CompressiveEncoding, count: int, size: int, payloads: Payloads, children: Children
) -> NDArray[np.int64]:
    demand(count <= size, f"sparse page: {count} positions of {size}")
    found = _sequence(message, count, payloads, children)
    ascending = bool((found[1:] > found[:-1]).all()) and (not count or found[-1] < size)
    demand(ascending, "sparse page: positions out of order")
    return found


def _sequence(
    message: pb.CompressiveEncoding, count: int, payloads: Payloads, children: Children
) -> NDArray[np.int64]:
    """Decode a sequence of u64 below 2^63."""
    demand(count <= _MOST_SLOTS, f"sparse page: a sequence of {count} numbers")
    arm = message.WhichOneof("compression")
    demand(arm is not None, "sparse page: a sequence without a description")
    if arm in _DESCRIBED:
        described: NDArray[np.int64] = _DESCRIBED[arm](getattr(message, arm), count)
        return described
    if arm == "delta":
        demand(count > 0, "sparse page: the differences of no numbers")
        deltas = _sequence(message.delta.deltas, count - 1, payloads, children)
        base = message.delta.base
        small = base < _MOST_DELTA and int(deltas.max(initial=0)) < _MOST_DELTA
        demand(small, "sparse page: differences out of range")
        return np.cumsum(np.concatenate((np.array([base], np.int64), deltas)))
    if arm == "dictionary":
        raise UnsupportedFormatError("a sparse page with counts in a dictionary is not supported")
    data = kernels.decode_block(children(message).block(), next(payloads), count)
    demand(len(data) == 8 * count, f"sparse page: {len(data)} bytes of {count} numbers")
    return _signed(np.frombuffer(data.tobytes(), np.uint64))


def _constant(message: pb.Constant, count: int) -> NDArray[np.int64]:
    demand(not count or len(message.value) == 8, "sparse page: a constant of another width")
    value = np.frombuffer(message.value if count else bytes(8), np.uint64)
    return _signed(np.repeat(value, count))


def _range(message: pb.Range, count: int) -> NDArray[np.int64]:
    small = message.start < _MOST_DELTA and message.step < _MOST_DELTA
    demand(small, "sparse page: a range out of range")
    return message.start + message.step * np.arange(count, dtype=np.int64)


def _signed(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    demand(int(values.max(initial=0)) < 1 << 63, "sparse page: a number out of range")
    return values.astype(np.int64)


_DESCRIBED: dict[Any, Any] = {"constant": _constant, "range": _range}
"""Sequences without a payload."""
