"""The worked examples of the format, byte for byte: read, and written where there is a choice."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from container.examples import EXAMPLES, Example
from container.pages import bytes_of, from_hex, read_page
from google.protobuf import text_format

from pilum.blocks import block_of
from pilum.encodings.choose import encode_pages
from pilum.encodings.registry import compressive_of
from pilum.encodings.structural.full_zip import encode_full_zip
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.levels import ravel


def encoded(example: Example) -> Any:
    """What our writer makes; full-zip by force."""
    if example.description.WhichOneof("layout") != "full_zip_layout":
        [page] = encode_pages(example.values, FileVersion.V2_1)
        return page
    levels, leaf = ravel(example.values)
    encoding = compressive_of(example.description.full_zip_layout.value_compression)
    return encode_full_zip(block_of(leaf), encoding, levels, len(example.values))


@pytest.mark.parametrize("name", EXAMPLES)
def test_read(name: str) -> None:
    example = EXAMPLES[name]
    buffers = [from_hex(buffer) for buffer in example.buffers]
    array = read_page(example.values.type, example.description, buffers, len(example.values))
    assert array.equals(example.values)


@pytest.mark.parametrize("name", EXAMPLES)
def test_read_each_row(name: str) -> None:
    example = EXAMPLES[name]
    buffers = [from_hex(buffer) for buffer in example.buffers]
    count = len(example.values)
    for row in {*range(min(count, 20)), count - 1}:
        array = read_page(
            example.values.type, example.description, buffers, count, RowRanges.of((row, row + 1))
        )
        assert array.equals(example.values.slice(row, 1))


@pytest.mark.parametrize("name", [name for name, made in EXAMPLES.items() if made.written])
def test_written(name: str) -> None:
    example = EXAMPLES[name]
    page = encoded(example)
    assert page.layout == example.description
    found = [bytes_of(buffer).hex(" ", 4) for buffer in page.buffers]
    assert found == [from_hex(buffer).hex(" ", 4) for buffer in example.buffers]


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        (
            (
                "mini_block_layout { value_compression {"
                " inline_bitpacking { uncompressed_bits_per_value: 32 } }"
                " dictionary { flat { bits_per_value: 128 } } num_dictionary_items: 10"
                " layers: [ALL_VALID_ITEM] num_buffers: 1 num_items: 3000 }"
            ),
            "0a 17 1a 04 2a 02 08 20 22 05 0a 03 08 80 01 28 0a 32 01 01 38 01 48 b8 17",
        ),
        ("constant_layout { layers: [NULLABLE_ITEM] }", "12 03 2a 01 03"),
    ],
)
def test_descriptions_on_the_wire(text: str, wire: str) -> None:
    description = text_format.Parse(text, pb.PageLayout())
    assert description.SerializeToString() == from_hex(wire)


def test_levels_out_of_line() -> None:
    # 1,976 integers, the odd ones null: chunks of 1,024 and 952 levels, both packed to 128 bytes.
    values = pa.array([None if i % 2 else i * 2**20 for i in range(1976)], pa.int32())
    [page] = encode_pages(values, FileVersion.V2_1)
    layout = page.layout.mini_block_layout
    assert layout.def_compression.out_of_line_bitpacking.values.flat.bits_per_value == 1
    chunks = bytes_of(page.buffers[1])
    assert chunks[:4] == from_hex("0004 8000")
    first = ((int.from_bytes(bytes_of(page.buffers[0])[:2], "little") >> 4) + 1) * 8
    assert chunks[first : first + 4] == from_hex("b803 8000")
    assert read_page(values.type, page.layout, page.buffers, 1976).equals(values)
