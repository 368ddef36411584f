"""Column metadata: pages to protobuf and back, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.cache import Descriptions
from pilum.container.frame import pack_columns, parse_column, parse_file_descriptor
from pilum.encodings.base import StoredPage
from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2, file_pb2

LAYOUT = encodings21_pb2.PageLayout(
    constant_layout=encodings21_pb2.ConstantLayout(layers=["NULLABLE_ITEM"])
)
PAGES = [
    (StoredPage(0, 5, ((0, 10), (64, 0))), LAYOUT),
    (StoredPage(5, 7, ()), LAYOUT),
]


@pytest.mark.checklist("S0.2")
def test_there_and_back() -> None:
    for buffers in ((), ((128, 7),)):
        packed = pack_columns([(PAGES, buffers)])[0]
        assert parse_column(packed, 1000, Descriptions()) == (PAGES, buffers)


@pytest.mark.checklist("S0.2")
def test_the_encoding_of_a_column_is_always_the_same() -> None:
    message = file_pb2.ColumnMetadata.FromString(pack_columns([([], ())])[0])
    assert message.encoding.direct.encoding == (
        b"\x0a\x1f/lance.encodings.ColumnEncoding\x12\x02\x0a\x00"
    )


@pytest.mark.checklist("S0.2")
def test_pages_say_which_row_they_begin_with() -> None:
    message = file_pb2.ColumnMetadata.FromString(pack_columns([(PAGES, ())])[0])
    assert [page.priority for page in message.pages] == [0, 5]


def _other_type(message: file_pb2.ColumnMetadata) -> None:
    other = file_pb2.Any(type_url="/lance.encodings24.OtherLayout")
    message.pages[0].encoding.direct.encoding = other.SerializeToString()


CHANGES: dict[str, Callable[[file_pb2.ColumnMetadata], object]] = {
    "offsets without": lambda message: message.pages[0].buffer_offsets.append(1),
    "beyond the end": lambda message: message.pages[0].buffer_sizes.__setitem__(0, 1001),
    "page length: 0": lambda message: setattr(message.pages[0], "length", 0),
    "page length": lambda message: setattr(message.pages[0], "length", 2**60),
    "OtherLayout": _other_type,
    "page description": lambda message: setattr(
        message.pages[0].encoding.direct, "encoding", b"\xff\xff"
    ),
}


@pytest.mark.parametrize("text", CHANGES)
def test_what_is_refused(text: str) -> None:
    message = file_pb2.ColumnMetadata.FromString(pack_columns([(PAGES, ())])[0])
    CHANGES[text](message)
    with pytest.raises(CorruptFileError, match=text) as caught:
        parse_column(message.SerializeToString(), 1000, Descriptions())
    assert caught.value.where == ["page 0"]


@given(st.binary(max_size=60))
def test_noise(noise: bytes) -> None:
    for parse in (lambda data: parse_column(data, 1000, Descriptions()), parse_file_descriptor):
        try:
            parse(noise)
        except CorruptFileError:
            continue
