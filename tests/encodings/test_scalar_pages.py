"""Pages of one value, which file version 2.2 has and 2.1 has not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from container.pages import from_hex, read_page

from pilum.encodings.choose import encode_pages
from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion

NEW, OLD = FileVersion.V2_2, FileVersion.V2_1
HELLO = from_hex("02000000 08000000 05000000 | 00000000 05000000 | 68656c6c6f")


def constant(*layers: Any, **members: Any) -> pb.PageLayout:
    return pb.PageLayout(constant_layout=pb.ConstantLayout(layers=list(layers), **members))


@pytest.mark.checklist("S4.9")
def test_inline() -> None:
    layout = constant(1, inline_value=b"\7\0\0\0")
    assert read_page(pa.int32(), layout, [], 3, version=NEW).to_pylist() == [7, 7, 7]
    wanted = RowRanges.of((1, 3), (7, 8))
    assert read_page(pa.int32(), layout, [], 9, wanted, NEW).to_pylist() == [7, 7, 7]


def test_inline_boolean() -> None:
    layout = constant(1, inline_value=b"\1")
    assert read_page(pa.bool_(), layout, [], 2, version=NEW).to_pylist() == [True, True]


@pytest.mark.checklist("S4.9")
def test_in_a_buffer() -> None:
    assert read_page(pa.string(), constant(1), [HELLO], 2, version=NEW).to_pylist() == ["hello"] * 2


@pytest.mark.checklist("S4.3")
def test_with_levels() -> None:
    # [["hello"], [], null, ["hello", null]]
    rep, def_ = from_hex("0100 0100 0100 0100 0000"), from_hex("0000 0300 0200 0000 0100")
    made = read_page(pa.list_(pa.string()), constant(3, 6), [HELLO, rep, def_], 4, version=NEW)
    assert made.to_pylist() == [["hello"], [], None, ["hello", None]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([7] * 300),
        pa.array([None, 2.5] * 150),
        pa.array([float("nan")] * 10, pa.float32()),
        pa.array([True] * 9),
        pa.array([True, *[False] * 500, True])[1:501],
        pa.array([None, True, None] * 60),
        pa.array(["same"] * 200),
        pa.array([None, "same"] * 70, pa.large_string()),
        pa.array([b"x" * 40] * 20, pa.binary(40)),
        pa.array([["a", "a"], [], None, ["a"]] * 40),
        pa.array([{"x": 1}, None, {"x": 1}, {"x": None}] * 30),
    ],
    ids=lambda values: str(values.type),
)
def test_the_writer_makes_them_where_it_may(values: pa.Array) -> None:
    [page] = encode_pages(values, NEW)
    assert page.layout.HasField("constant_layout")
    assert sum(memoryview(buffer).nbytes for buffer in page.buffers) <= 6 * len(values) + 64
    if not pa.types.is_struct(values.type):
        found = read_page(values.type, page.layout, page.buffers, len(values), version=NEW)
        assert str(found.to_pylist()) == str(values.to_pylist())
    [old] = encode_pages(values, OLD)
    assert not old.layout.HasField("constant_layout")


@pytest.mark.parametrize("at", [0, 3, 63, 64, 499])
@pytest.mark.parametrize("offset", [0, 5])
def test_one_other_boolean_makes_an_ordinary_page(at: int, offset: int) -> None:
    values = pa.array([False] * (offset + at) + [True] + [False] * (499 - at))[offset:]
    [page] = encode_pages(values, NEW)
    assert page.layout.HasField("mini_block_layout")
    found = read_page(values.type, page.layout, page.buffers, len(values), version=NEW)
    assert found.to_pylist() == values.to_pylist()


def test_zeros_of_either_sign_are_two_values() -> None:
    [page] = encode_pages(pa.array([0.0, -0.0] * 8), NEW)
    assert page.layout.HasField("mini_block_layout")


@pytest.mark.parametrize(
    ("layout", "buffers"),
    [
        (constant(1, inline_value=b"\7\0\0"), []),
        (constant(1, inline_value=b""), []),
        (constant(1), [b""]),
        (constant(1), [HELLO[:-1]]),
        (constant(1), [from_hex("ffffffff 00000000")]),
        (constant(1), [from_hex("03000000") + bytes(12)]),
        (constant(1), [from_hex("01000000 04000000 07000000"), b"", b""]),
        (constant(1, inline_value=b"\7\0\0\0"), [b""]),
        (constant(1), [from_hex("02000000 08000000 00000000 00000000 05000000")]),
        (constant(1), [b""] * 4),
    ],
)
def test_damage(layout: pb.PageLayout, buffers: list[bytes]) -> None:
    kind = pa.string() if len(buffers) == 1 else pa.int32()
    with pytest.raises(CorruptFileError):
        read_page(kind, layout, buffers, 3, version=NEW)


def test_an_older_file_cannot_have_them() -> None:
    for layout, buffers in ((constant(1, inline_value=b"\7\0\0\0"), []), (constant(1), [HELLO])):
        with pytest.raises(CorruptFileError, match=r"need version 2\.2"):
            read_page(pa.int32(), layout, buffers, 3)
