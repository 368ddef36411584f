"""Blobs written ahead of their rows: each continues and reads what the other wrote."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import assert_same

import pilum
import pilum.file
import pilum.fragment

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")
lance_file: Any = pytest.importorskip("lance.file")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_SESSIONS: dict[Any, Any] = {pilum: pilum.file.LanceFileSession, lance: lance_file.LanceFileSession}
_LIBRARIES = st.sampled_from([pilum, lance])
_PAYLOADS = st.lists(st.none() | st.binary(max_size=70), min_size=1, max_size=8)


def base_table(path: str, library: Any) -> None:
    schema = pa.schema([pa.field("n", pa.int64()), library.blob_field("b")])
    table = pa.table([pa.array([0]), library.blob_array([b"base"])], schema=schema)
    library.write_dataset(table, path, data_storage_version="2.2")


def sidecars(session: Any, library: Any, packed: list[Any], dedicated: bytes) -> pa.Array:
    """The column of both, and an inline and a null row."""
    one = session.open_packed_blob_writer("data/f.lance", 1)
    one.write_blobs(pa.array(packed, pa.binary()))
    two = session.open_dedicated_blob_writer("data/f.lance", 2)
    two.write(dedicated[:3])
    two.write(dedicated[3:])
    builder = library.BlobDescriptorArrayBuilder("b")
    builder.extend(one.finish())
    builder.append(two.finish())
    builder.append_inline(b"in")
    builder.append_null()
    return builder.finish()


def committed(path: str, library: Any, num_rows: int) -> None:
    size = (Path(path) / "data" / "f.lance").stat().st_size
    fragment: Any = pilum.fragment if library is pilum else lance.fragment
    file = fragment.DataFile("f.lance", [0, 1], [0, 1], 2, 2, size)
    append = library.LanceOperation.Append([library.FragmentMetadata(0, [file], num_rows)])
    library.LanceDataset.commit(path, append, read_version=1)


@settings(max_examples=40)
@given(
    packed=_PAYLOADS,
    dedicated=st.binary(max_size=300),
    libraries=st.tuples(_LIBRARIES, _LIBRARIES, _LIBRARIES, _LIBRARIES),
)
def test_each_continues_what_the_other_began(
    tmp_path: Path, packed: list[Any], dedicated: bytes, libraries: tuple[Any, ...]
) -> None:
    of_table, of_sidecars, of_file, of_commit = libraries
    path = str(tmp_path / str(next(_NUMBERS)))
    base_table(path, of_table)
    column = sidecars(_SESSIONS[of_sidecars](path), of_sidecars, packed, dedicated)
    field = of_sidecars.BlobDescriptorArrayBuilder("b").field
    schema = pa.schema([pa.field("n", pa.int64()), field])
    batch = pa.record_batch([pa.array(range(len(column))), column], schema=schema)
    with _SESSIONS[of_file](path).open_writer("data/f.lance", version="2.2") as file:
        file.write_batch(batch)
    committed(path, of_commit, len(column))
    found, expected = pilum.dataset(path), lance.dataset(path)
    for handling in (None, "all_binary"):
        assert_same(
            found.to_table(blob_handling=handling), expected.to_table(blob_handling=handling)
        )
    values = [b"base", *packed, dedicated, b"in", None]
    rows = range(len(values))
    assert [data for _, data in found.read_blobs("b", indices=rows)] == values
    assert found.read_blobs("b", indices=rows) == expected.read_blobs("b", indices=rows)
    assert found.verify(deep=True).is_valid


@settings(max_examples=30)
@given(parts=st.lists(_PAYLOADS, min_size=1, max_size=3))
def test_both_write_the_same_bytes_and_descriptors(tmp_path: Path, parts: list[list[Any]]) -> None:
    made = []
    for library in (pilum, lance):
        session = _SESSIONS[library](str(tmp_path / f"{library.__name__}-{next(_NUMBERS)}"))
        writer = session.open_packed_blob_writer("data/f.lance", 77)
        for part in parts:
            writer.write_blobs(pa.array(part, pa.large_binary()))
        writer.write_blob(b"last")
        column = writer.finish_array("b")
        (path,) = session.list()
        size = sum(len(item or b"") for part in parts for item in part) + 4
        data = session.read_range(path, 0, size)
        made.append((path, data, column.to_pylist(), writer.field, writer.field.metadata))
    assert made[0] == made[1]


def refused(call: Any) -> bool:
    """Whether a call fails; a number that does not fit is an overflow for one of the two."""
    try:
        call()
    except (ValueError, TypeError, OverflowError):
        return True
    return False


_CALLS: dict[str, Any] = {
    "blob 0": lambda session, _: session.open_packed_blob_writer("a.lance", 0),
    "blob -1": lambda session, _: session.open_dedicated_blob_writer("a.lance", -1),
    "blob 2^32": lambda session, _: session.open_packed_blob_writer("a.lance", 1 << 32),
    "no data file": lambda session, _: session.open_packed_blob_writer("a.txt", 1),
    "text": lambda session, _: session.open_packed_blob_writer("a.lance", 1).write_blob("a"),
    "strings": lambda session, _: session.open_packed_blob_writer("a.lance", 1).write_blobs(
        pa.array(["a"])
    ),
    "no array": lambda session, _: session.open_packed_blob_writer("a.lance", 1).write_blobs([b""]),
    "no field yet": lambda session, _: session.open_packed_blob_writer("a.lance", 1).field,
    "too few sizes": lambda _, builder: builder.extend_packed(1, [0], []),
    "too far": lambda _, builder: builder.extend_packed(1, [2**64 - 1], [2]),
    "dedicated 0": lambda _, builder: builder.append_dedicated(0, 1),
    "no descriptor": lambda _, builder: builder.append(3),
    "inline text": lambda _, builder: builder.append_inline("a"),
    "twice": lambda _, builder: (builder.finish(), builder.finish()),
}


@pytest.mark.parametrize("name", _CALLS)
def test_both_refuse_the_same(tmp_path: Path, name: str) -> None:
    for library in (pilum, lance):
        session = _SESSIONS[library](str(tmp_path))
        assert refused(lambda: _CALLS[name](session, library.BlobDescriptorArrayBuilder("b")))  # noqa: B023
