"""The worked examples of the format: values, description and bytes of single pages."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import text_format

from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["EXAMPLES", "Example"]

FLAT16 = "{ flat { bits_per_value: 16 } }"
FLAT32 = "{ flat { bits_per_value: 32 } }"
VARIABLE = "{ variable { offsets { flat { bits_per_value: 32 } } } }"


@dataclass(frozen=True)
class Example:
    """One page.

    Attributes:
        values: What it holds.
        layout: Its description, as protobuf text.
        buffers: Its buffers in hex.
        written: Whether our writer makes exactly these bytes.
    """

    values: pa.Array
    layout: str
    buffers: tuple[str, ...]
    written: bool = True

    @property
    def description(self) -> pb.PageLayout:
        message = pb.PageLayout()
        text_format.Parse(self.layout, message)
        return message


def mini_block(values: str, more: str = "", layers: str = "[ALL_VALID_ITEM]") -> str:
    return f"mini_block_layout {{ value_compression {values} layers: {layers} {more} }}"


def full_zip(values: str, more: str, layers: str) -> str:
    return f"full_zip_layout {{ value_compression {values} layers: {layers} {more} }}"


def int32s(*values: Any) -> pa.Array:
    return pa.array(values, pa.int32())


LISTS = pa.array([[1, 2, 3], [], None, [4, None], [5]], pa.list_(pa.int32()))
VECTORS = pa.array(
    [None if i == 2 else [i, None, i + 2, i + 3] for i in range(10)], pa.list_(pa.int32(), 4)
)
NESTED_VECTORS = pa.array(
    [[[1, 2], [3, None]], None, [None, [5, 6]]], pa.list_(pa.list_(pa.int32(), 2), 2)
)
NULL_VECTOR = "00000000" * 4
EXAMPLES: dict[str, Example] = {
    "three integers": Example(
        int32s(1, 2, 3),
        mini_block(FLAT32, "num_buffers: 1 num_items: 3"),
        ("2000", "0000 0c00 fefefefe 01000000 02000000 03000000 fefefefe"),
    ),
    "lists of integers": Example(
        LISTS,
        mini_block(
            FLAT32,
            f"rep_compression {FLAT16} def_compression {FLAT16} num_buffers: 1 num_items: 6"
            " repetition_index_depth: 1",
            "[NULLABLE_ITEM, NULL_AND_EMPTY_LIST]",
        ),
        (
            "7000",
            (
                "0800 1000 1000 1800"
                "0100 0000 0000 0100 0100 0100 0000 0100"
                "0000 0000 0000 0300 0200 0000 0100 0000"
                "01000000 02000000 03000000 04000000 00000000 05000000"
            ),
            "0500000000000000 0000000000000000",
        ),
    ),
    "strings": Example(
        pa.array(["ab", "", "cde", "", "f"]),
        mini_block(VARIABLE, "num_buffers: 1 num_items: 5"),
        (
            "4000",
            (
                "0000 2000 fefefefe"
                "18000000 1a000000 1a000000 1d000000 1d000000 1e000000 | 61626364 6566 4848"
            ),
        ),
    ),
    "strings with a null": Example(
        pa.array(["ab", "", "cde", None, "f"]),
        mini_block(
            VARIABLE,
            f"def_compression {FLAT16} num_buffers: 1 num_items: 5",
            "[NULLABLE_ITEM]",
        ),
        (
            "6000",
            (
                "0500 0a00 2000 fefe 0000 0000 0000 0100 0000 fefefefefefe"
                "18000000 1a000000 1a000000 1d000000 1d000000 1e000000 | 61626364 6566 4848"
            ),
        ),
    ),
    "small integers in ten bits": Example(
        # Behind the width stand the first words of all lanes, in which the first 32 values begin.
        pa.array([1000 if i == 0 else 1 if i == 1 else 0 for i in range(1024)], pa.int32()),
        mini_block(
            "{ inline_bitpacking { uncompressed_bits_per_value: 32 } }",
            "num_buffers: 1 num_items: 1024",
        ),
        ("100a", "0000 0405 fefefefe 0a000000 e8030000 01000000 00*1272; fefefefe"),
        written=False,
    ),
    "one long run": Example(
        pa.array([7] * 5000, pa.int32()),
        mini_block(
            "{ rle { values { flat { bits_per_value: 32 } }"
            " run_lengths { flat { bits_per_value: 8 } } } }",
            "num_buffers: 2 num_items: 5000",
        ),
        (
            "cc00 3000",
            "0000 4400 1100 fefe" + "07000000" * 17 + "fefefefe ff*16; 10 fe*7;"
            "0000 1000 0400 fefe" + "07000000" * 4 + "ffffff8b fefefefe",
        ),
    ),
    "wide integers by force": Example(
        int32s(1, None, 3),
        full_zip(
            FLAT32,
            "bits_def: 1 bits_per_value: 32 num_items: 3 num_visible_items: 3",
            "[NULLABLE_ITEM]",
        ),
        ("00 01000000 | 01 00000000 | 00 03000000",),
    ),
    "zipped strings": Example(
        pa.array(["a", None, "", "bcd"]),
        full_zip(
            VARIABLE,
            "bits_def: 1 bits_per_offset: 32 num_items: 4 num_visible_items: 4",
            "[NULLABLE_ITEM]",
        ),
        ("00 01000000 61 | 01 | 00 00000000 | 00 03000000 626364", "00 06 07 0c 14"),
    ),
    "zipped lists": Example(
        pa.array([[1, 2], [], None, [None, 4]], pa.list_(pa.int32())),
        full_zip(
            FLAT32,
            "bits_rep: 1 bits_def: 2 bits_per_value: 32 num_items: 6 num_visible_items: 4",
            "[NULLABLE_ITEM, NULL_AND_EMPTY_LIST]",
        ),
        (
            "04 01000000 | 00 02000000 | 07 | 06 | 05 00000000 | 00 04000000",
            "00 0a 0b 0c 16",
        ),
    ),
    "zipped lists without nulls": Example(
        pa.array([[1, 2], [3]], pa.list_(pa.int32())),
        full_zip(
            FLAT32,
            "bits_rep: 1 bits_per_value: 32 num_items: 3 num_visible_items: 3",
            "[ALL_VALID_ITEM, ALL_VALID_LIST]",
        ),
        ("01 01000000 | 00 02000000 | 01 03000000", "00 0a 0f"),
    ),
    "zipped lists of lists": Example(
        pa.array([[["a"], [], None], [], None, [[None, "b"]]], pa.list_(pa.list_(pa.string()))),
        full_zip(
            VARIABLE,
            "bits_rep: 2 bits_def: 3 bits_per_offset: 32 num_items: 7 num_visible_items: 3",
            "[NULLABLE_ITEM, NULL_AND_EMPTY_LIST, NULL_AND_EMPTY_LIST]",
        ),
        (
            "10 01000000 61 | 0b | 0a | 15 | 14 | 11 | 00 01000000 62",
            "00 08 09 0a 11",
        ),
    ),
    "zipped booleans take a byte": Example(
        pa.array([True, None, False]),
        full_zip(
            "{ flat { bits_per_value: 8 } }",
            "bits_def: 1 bits_per_value: 8 num_items: 3 num_visible_items: 3",
            "[NULLABLE_ITEM]",
        ),
        ("00 01 | 01 00 | 00 00",),
    ),
    "a control word may be wider than needed": Example(
        int32s(1, None),
        full_zip(
            FLAT32,
            "bits_def: 8 bits_per_value: 32 num_items: 2 num_visible_items: 2",
            "[NULLABLE_ITEM]",
        ),
        ("00 01000000 | 01 00000000",),
        written=False,
    ),
    "an index may be wider than needed": Example(
        pa.array(["a", "bc"]),
        full_zip(
            VARIABLE,
            "bits_per_offset: 32 num_items: 2 num_visible_items: 2",
            "[ALL_VALID_ITEM]",
        ),
        ("01000000 61 | 02000000 6263", "0000000000000000 0500000000000000 0b00000000000000"),
        written=False,
    ),
    "nothing but nulls": Example(
        pa.array([None, None, None], pa.int32()),
        "constant_layout { layers: [NULLABLE_ITEM] }",
        (),
    ),
    "lists without values": Example(
        pa.array([[], None, [None], []], pa.list_(pa.int32())),
        "constant_layout { layers: [NULLABLE_ITEM, NULL_AND_EMPTY_LIST] }",
        ("0100 0100 0100 0100", "0300 0200 0100 0300"),
    ),
    "null structs of nulls": Example(
        pa.StructArray.from_arrays([pa.nulls(2, pa.int32())], ["x"], mask=pa.array([True, False])),
        "constant_layout { layers: [NULLABLE_ITEM, NULLABLE_ITEM] }",
        ("", "0200 0100"),
    ),
    "a dictionary of decimals": Example(
        pa.array([Decimal(5), Decimal(-1), Decimal(5)], pa.decimal128(10, 0)),
        mini_block(
            FLAT32,
            "dictionary { flat { bits_per_value: 128 } } num_dictionary_items: 2"
            " num_buffers: 1 num_items: 3",
        ),
        (
            "2000",
            "0000 0c00 fefefefe 00000000 01000000 00000000 fefefefe",
            "05 00*15; ff*16;",
        ),
        written=False,
    ),
    "a dictionary of strings": Example(
        pa.array(["delta", "gamma", "alpha", "beta"]),
        mini_block(
            "{ flat { bits_per_value: 8 } }",
            f"dictionary {VARIABLE} num_dictionary_items: 4 num_buffers: 1 num_items: 4",
        ),
        (
            "1000",
            "0000 0400 fefefefe 00 02 01 03 fefefefe",
            (
                "20000000 1c000000 | 00000000 05000000 0a000000 0f000000 13000000"
                "| 64656c7461 616c706861 67616d6d61 62657461"
            ),
        ),
        written=False,
    ),
    "vectors with null items": Example(
        VECTORS,
        mini_block(
            "{ fixed_size_list { items_per_value: 4 has_validity: true"
            " values { flat { bits_per_value: 32 } } } }",
            f"def_compression {FLAT16} num_buffers: 2 num_items: 10",
            "[NULLABLE_ITEM]",
        ),
        (
            "8001",
            "0a00 1400 0500 a000"
            "0000 0000 0100 0000 0000 0000 0000 0000 0000 0000 fefefefe"
            "dd d0 dd dd dd fefefe"
            + "".join(
                NULL_VECTOR if i == 2 else np.array([i, 0, i + 2, i + 3], "<i4").tobytes().hex()
                for i in range(10)
            ),
        ),
        # Arrow says nothing of the items of a null list, so that their bits may differ.
        written=False,
    ),
    "vectors of vectors": Example(
        NESTED_VECTORS,
        mini_block(
            "{ fixed_size_list { items_per_value: 2 has_validity: true values {"
            " fixed_size_list { items_per_value: 2 has_validity: true"
            " values { flat { bits_per_value: 32 } } } } } }",
            f"def_compression {FLAT16} num_buffers: 3 num_items: 3",
            "[NULLABLE_ITEM]",
        ),
        (
            "a000",
            "0300 0600 0100 0200 3000 fe*6; 0000 0100 0000 fefe 23 fe*7; 07 0c fe*6;"
            "01000000 02000000 03000000 00000000" + "00000000" * 4 + "00000000 00000000"
            "05000000 06000000",
        ),
        written=False,
    ),
    "a zipped list of vectors": Example(
        # Bitmap of 9 items, then the items: 5 is null.
        pa.array([[[1, 2, 3, 4, None, 6, 7, 8, 9], None]], pa.list_(pa.list_(pa.int8(), 9))),
        full_zip(
            "{ fixed_size_list { items_per_value: 9 has_validity: true"
            " values { flat { bits_per_value: 8 } } } }",
            "bits_rep: 1 bits_def: 1 bits_per_value: 88 num_items: 2 num_visible_items: 2",
            "[NULLABLE_ITEM, ALL_VALID_LIST]",
        ),
        ("02 | ef01 | 01020304 00 06070809 | 01 | 0000 | 00*9;", "00 18"),
        written=False,
    ),
    "lists of structs of lists": Example(
        pa.array(
            [
                [{"p": [1, 2]}, None, {"p": None}, {"p": []}],
                [],
                None,
                [{"p": [None, 3]}],
            ],
            pa.list_(pa.struct([("p", pa.list_(pa.int8()))])),
        ),
        mini_block(
            "{ flat { bits_per_value: 8 } }",
            f"rep_compression {FLAT16} def_compression {FLAT16} num_buffers: 1 num_items: 4"
            " repetition_index_depth: 1",
            "[NULLABLE_ITEM, NULL_AND_EMPTY_LIST, NULLABLE_ITEM, NULL_AND_EMPTY_LIST]",
        ),
        (
            "7000",
            (
                "0900 1200 1200 0400"
                "0200 0000 0100 0100 0100 0200 0200 0200 0000 fe*6;"
                "0000 0000 0400 0200 0300 0600 0500 0100 0000 fe*6;"
                "01 02 00 03 fefefefe"
            ),
            "0400000000000000 0000000000000000",
        ),
    ),
}
