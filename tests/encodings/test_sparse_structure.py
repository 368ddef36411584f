"""The structure of sparse pages: layers of a hand-made page, and descriptions that contradict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pilum.encodings.planar import page_layout
from pilum.encodings.registry import compressive_of, layout_of
from pilum.encodings.structural.sparse_structure import Structure, num_payloads
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion

Encoding = pb.CompressiveEncoding
NULLS, VALID = pb.SparseValiditySet.NULL_POSITIONS, pb.SparseValiditySet.VALID_POSITIONS
FLAT = Encoding(flat=pb.Flat(bits_per_value=64))
NONE = Encoding(constant=pb.Constant())


def range_of(start: int, step: int) -> Encoding:
    return Encoding(range=pb.Range(uncompressed_bits_per_value=64, start=start, step=step))


def delta(base: int, deltas: Encoding) -> Encoding:
    return Encoding(delta=pb.Delta(uncompressed_bits_per_value=64, base=base, deltas=deltas))


def constant(value: int) -> Encoding:
    return Encoding(constant=pb.Constant(value=value.to_bytes(8, "little")))


def validity(positions: Encoding, count: int, meaning: Any = NULLS) -> pb.SparseStructuralLayer:
    found = pb.SparseValiditySet(meaning=meaning, positions=positions, num_positions=count)
    return pb.SparseStructuralLayer(validity=found)


def lists(
    positions: Encoding, counts: Encoding, num_lists: int, num_items: int, nulls: Any = None
) -> pb.SparseStructuralLayer:
    return pb.SparseStructuralLayer(
        list=pb.SparseListLayer(
            num_child_slots=num_items,
            non_empty_positions=positions,
            num_non_empty_positions=num_lists,
            counts=counts,
            validity=(nulls or validity(NONE, 0)).validity,
        )
    )


def numbers(*values: int) -> Any:
    return np.array(values, np.uint64).view(np.uint8)


def read(layers: list[pb.SparseStructuralLayer], num_rows: int, *payloads: Any) -> Structure:
    assert num_payloads(layers) == len(payloads)
    return Structure.read(layers, num_rows, iter(payloads), compressive_of)


def test_lists_with_nulls_at_both_levels() -> None:
    """The rows [[1], null, [], [2, null]]: positions as a range, counts in a payload."""
    layers = [
        lists(range_of(0, 3), FLAT, 2, 3, validity(constant(1), 1)),
        validity(delta(0, FLAT), 2, VALID),
    ]
    structure = read(layers, 4, numbers(1, 2), numbers(1))
    assert structure.num_slots == 3
    (leaf, outer), slots = structure.project(RowRanges.one(0, 4))
    assert outer.offsets is not None
    assert outer.validity is not None
    assert leaf.validity is not None
    assert outer.offsets.tolist() == [0, 1, 1, 1, 3]
    assert (outer.validity[0] & 15, outer.null_count) == (0b1101, 1)
    assert (leaf.validity[0] & 7, leaf.null_count) == (0b011, 1)
    assert slots.tolist() == [0, 1, 2]
    (leaf, outer), slots = structure.project(RowRanges.of((1, 2), (3, 4)))
    assert outer.offsets is not None
    assert outer.offsets.tolist() == [0, 0, 2]
    assert (slots.tolist(), leaf.null_count) == ([1, 2], 1)
    assert structure.leaf.ranks(np.array([0, 1, 2])).tolist() == [0, 1, 2]
    assert structure.leaf.count(3) == 2


@pytest.mark.parametrize(
    ("layer", "payloads", "text"),
    [
        (validity(FLAT, 2), [numbers(3, 3)], "out of order"),
        (validity(FLAT, 2), [numbers(3, 5)], "out of order"),
        (validity(FLAT, 6), [numbers(*range(6))], "6 positions of 5"),
        (validity(FLAT, 1), [numbers(1 << 63)], "out of range"),
        (validity(FLAT, 2), [numbers(3)], "expected 16, found 8|bytes"),
        (validity(range_of(0, 0), 2), [], "out of order"),
        (validity(range_of(1 << 60, 1), 1), [], "a range out of range"),
        (validity(delta(0, NONE), 0), [], "differences of no numbers"),
        (validity(delta(1 << 40, NONE), 1), [], "differences out of range"),
        (validity(delta(0, constant(1 << 40)), 2), [], "differences out of range"),
        (validity(Encoding(constant=pb.Constant(value=b"1")), 1), [], "another width"),
        (validity(NONE, 0, 0), [], "unknown validity"),
        (validity(Encoding(), 0), [numbers()], "without a description"),
        (lists(constant(0), constant(0), 1, 0), [], "no items among those with some"),
        (lists(constant(0), constant(2), 1, 3), [], "items: expected 3, found 2"),
        (lists(constant(0), constant(1 << 40), 1, 5), [], "more items than slots"),
        (lists(constant(1), constant(1), 1, 1, validity(constant(1), 1)), [], "null list"),
        (pb.SparseStructuralLayer(), [], "a layer without a kind"),
    ],
)
def test_damaged_layers(layer: pb.SparseStructuralLayer, payloads: list[Any], text: str) -> None:
    with pytest.raises(CorruptFileError, match=text):
        read([layer], 5, *payloads)


def test_very_many_slots_are_refused_before_they_are_listed() -> None:
    with pytest.raises(UnsupportedFormatError, match="4000000000 slots"):
        read([validity(NONE, 0, VALID)], 4_000_000_000)
    with pytest.raises(UnsupportedFormatError, match="1099511627776 slots"):
        read([lists(constant(0), constant(1 << 40), 1, 1 << 40)], 5)


def planar(structure: Any, values: Any) -> pb.PlanarLayout:
    return pb.PlanarLayout(
        structure=pb.StructuralPlane(**structure), values=pb.ValuePlane(**values)
    )


DENSE = {"dense": pb.DenseStructure(layers=[pb.ALL_VALID_ITEM])}
SPARSE = {"sparse": pb.SparseStructure()}
OFFSETS = Encoding(variable=pb.Variable(offsets=range_of(0, 5)))


@pytest.mark.parametrize(
    ("layout", "error", "text"),
    [
        (pb.PlanarLayout(), CorruptFileError, "no structure"),
        (planar(DENSE, {}), CorruptFileError, "no values"),
        (planar(DENSE, {"none": pb.NoValues()}), UnsupportedFormatError, "with none values"),
        (
            planar(DENSE, {"chunked": pb.ChunkedValues(compression=OFFSETS)}),
            UnsupportedFormatError,
            "offsets as range",
        ),
        (planar(SPARSE, {"indexed": pb.IndexedValues()}), UnsupportedFormatError, "with indexed"),
    ],
)
def test_other_descriptions(layout: pb.PlanarLayout, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        layout_of(page_layout(layout), FileVersion.V2_3)


def test_sparse_pages_in_files_of_other_versions() -> None:
    layout = page_layout(planar(SPARSE, {"none": pb.NoValues()}))
    with pytest.raises(CorruptFileError, match=r"needs version 2\.3"):
        layout_of(layout, FileVersion.V2_2)
