"""What becomes of a change by a handle that was opened before another change (S2.9).

Every operation after every other, through the methods that users call, with both libraries. The
golden table holds the verdicts of the reference; where ours differ on purpose, `OURS` says why.

    .  committed        R  the work has to be done again on the newest version
    E  not possible     I  it makes no sense any more
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
import pilum.fragment
from pilum.errors import CommitConflictError, PilumError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = {"pilum": pilum, "lance": lance}
FAST = {"sync": "false"}  # for ours; the other library does not know it
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table([ids, [10 * one for one in ids], [f"row {one}" for one in ids]], schema=SCHEMA)


def upsert(data: Any) -> None:
    builder = data.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(rows(0, 50))


CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda data: data.insert(rows(10)),
    "over": lambda data: data.insert(rows(20), mode="overwrite"),
    "other": lambda data: data.insert(pa.table({"z": [1]}), mode="overwrite"),
    "del 0": lambda data: data.delete("id = 0"),
    "del 1": lambda data: data.delete("id = 1"),
    "del <3": lambda data: data.delete("id < 3"),
    "set 0": lambda data: data.update({"s": "'new'"}, where="id = 0"),
    "set 1": lambda data: data.update({"s": "'new'"}, where="id = 1"),
    "upsert": upsert,
    "add": lambda data: data.add_columns({"n": "id * 2"}),
    "null": lambda data: data.add_columns(pa.field("e", pa.int64())),
    "join": lambda data: data.merge(pa.table({"id": [0, 4], "m": ["a", "b"]}), "id"),
    "drop": lambda data: data.drop_columns(["v"]),
    "name": lambda data: data.alter_columns({"path": "v", "name": "w"}),
    "must": lambda data: data.alter_columns({"path": "id", "nullable": False}),
    "may": lambda data: data.alter_columns({"path": "id", "nullable": True}),
    "cast": lambda data: data.alter_columns({"path": "v", "data_type": pa.int32()}),
    "key": lambda data: data.update_config({"key": "x"}),
    "key 2": lambda data: data.update_config({"other": "x"}),
    "note": lambda data: data.update_metadata({"key": "x"}),
    "schema": lambda data: data.update_schema_metadata({"key": "x"}),
    "field": lambda data: data.update_field_metadata({"s": {"key": "x"}}),
    "pack": lambda data: data.optimize.compact_files(),
    "back": lambda data: data.checkout_version(1).restore(),
}

# A line for each first change; its letters are about the second ones, in the order above.
GOLDEN = """
append  .........RRR..R.R.......
over    IRRIIIIIIIIIIIIII...III.
other   IRRIIIIIIIIIIIIII...III.
del 0   .........RRR....R.....R.
del 1   .........RRR....R.....R.
del <3  .........RRR....R.....R.
set 0   .........RRR..R.R.....R.
set 1   .........RRR..R.R.....R.
upsert  .........RRR..R.R.....R.
add     .........RRRRRRRR...RRR.
null    .........RRRRRRRR...RRR.
join    .........RRRRRRRR...RRR.
drop    .........IIIRRRRI.......
name    .........IIIRRRRI.......
must    R........IIIRRRRI.......
may     .........IIIRRRRI.......
cast    ........ERRRRRRRR...RRR.
key     .................I......
key 2   ..................I.....
note    ...................I....
schema  .........RRR....R...I...
field   .........RRR....R....I..
pack    .........RRR....R.....R.
back    I..IIIIIIIIIIIIII...III.
"""

OURS = {("cast", "append"): "R"}
"""The cast made another column of the values: those of the reference's append are null in it."""


def table(library: Any, path: str) -> Any:
    """Two fragments of three rows, and three versions."""
    data = library.write_dataset(
        rows(0, 1, 2), path, data_storage_version="2.1", storage_options=FAST
    )
    data.insert(rows(3, 4, 5))
    data.update_config({"key": "value"})
    return library.dataset(path, storage_options=FAST)


def sign(error: Exception) -> str:
    """R if the work is to be done again, I if it makes no sense any more, E for anything else."""
    if isinstance(error, CommitConflictError):
        return "R" if error.retryable else "I"
    text = "" if isinstance(error, PilumError) else str(error)
    if "Please retry" in text:
        return "R"
    return "I" if "Incompatible transaction" in text else "E"


def content(uri: str) -> Any:
    """What readers see, in any order of rows; metadata of columns have tests of their own."""
    data = lance.dataset(uri)
    columns = [(one.name, one.type, one.nullable) for one in data.schema]
    return columns, sorted(map(repr, data.to_table().to_pylist())), data.config(), data.metadata


def after(library: Any, first: str, path: Path) -> tuple[str, dict[str, Any]]:
    """The verdicts of all changes by handles from before `first`, and what tables are then."""
    line, found = "", {}
    made = path / library.__name__
    table(library, str(made))
    for second, change in CHANGES.items():
        uri = str(path / f"{library.__name__} {second}")
        shutil.copytree(made, uri)
        stale = library.dataset(uri, storage_options=FAST)
        CHANGES[first](library.dataset(uri, storage_options=FAST))
        try:
            change(stale)
        except (OSError, ValueError, PilumError) as error:
            line += sign(error)
        else:
            line += "."
            found[second] = content(uri)
    return line, found


@pytest.mark.checklist("S2.9")
@pytest.mark.parametrize("first", CHANGES)
def test_verdicts_and_results_are_those_of_the_reference(tmp_path: Path, first: str) -> None:
    golden = next(line[8:] for line in GOLDEN.splitlines() if line[:8].strip() == first)
    theirs, expected = after(lance, first, tmp_path)
    assert theirs == golden
    ours, found = after(pilum, first, tmp_path)
    signs = zip(CHANGES, golden, strict=True)
    assert ours == "".join(OURS.get((first, second), one) for second, one in signs)
    assert found == {second: expected[second] for second in found}


@pytest.mark.parametrize("second", ["drop", "name", "may", "must"])
def test_metadata_of_columns_outlive_a_stale_change_of_columns(tmp_path: Path, second: str) -> None:
    """The reference loses them."""
    uri = str(tmp_path / "t")
    stale = table(pilum, uri)
    fresh = pilum.dataset(uri)
    fresh.update_field_metadata({"s": {"unit": "text"}, "v": {"unit": "cm"}})
    fresh.update_schema_metadata({"made by": "hand"})
    CHANGES[second](stale)
    for data in (stale, pilum.dataset(uri), lance.dataset(uri)):
        assert data.schema.metadata == {b"made by": b"hand"}
        assert data.schema.field("s").metadata == {b"unit": b"text"}
        if second != "drop":
            name = "w" if second == "name" else "v"
            assert data.schema.field(name).metadata == {b"unit": b"cm"}


def test_metadata_within_a_projection_by_hand_conflict(tmp_path: Path) -> None:
    """It may be about them, so that those of others are neither lost nor put in their place."""
    stale = table(pilum, str(tmp_path / "t"))
    pilum.dataset(stale.uri).update_field_metadata({"s": {"unit": "text"}})
    projection = pilum.LanceOperation.Project(stale.lance_schema)
    with pytest.raises(CommitConflictError, match="what is said of field") as found:
        pilum.LanceDataset.commit(stale, projection, read_version=stale.version)
    assert found.value.retryable


def test_an_append_that_a_cast_overtook_leaves_nothing(tmp_path: Path) -> None:
    stale = table(pilum, str(tmp_path / "t"))
    pilum.dataset(stale.uri).alter_columns({"path": "v", "data_type": pa.int32()})
    before = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(CommitConflictError, match=r"others in the place of \['v'\]"):
        stale.insert(rows(10))
    assert sorted((tmp_path / "t").rglob("*")) == before
    stale.checkout_latest()
    stale.insert(rows(10).cast(stale.schema))
    assert stale.to_table(filter="id = 10")["v"].to_pylist() == [100]


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_a_handle_knows_the_columns_of_its_version_alone(tmp_path: Path, library: Any) -> None:
    stale = table(library, str(tmp_path / "t"))
    library.dataset(stale.uri).add_columns({"n": "id * 2"})
    wide = rows(10).append_column("n", pa.array([20]))
    with pytest.raises((OSError, ValueError), match=r"'n'|n\]"):
        stale.insert(wide)
    library.write_dataset(wide, stale.uri, mode="append")
    stale.insert(rows(11))
    found = stale.to_table(columns=["n"], filter="id > 9")["n"].to_pylist()
    assert found == [20, None]


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_files_written_for_a_handle_are_for_its_version(tmp_path: Path, library: Any) -> None:
    """Also those that are committed by hand."""
    stale = table(library, str(tmp_path / "t"))
    CHANGES["over"](library.dataset(stale.uri))
    write = library.fragment.write_fragments
    transaction = write(rows(10), stale, return_transaction=True)
    assert transaction.read_version == stale.version
    with pytest.raises(OSError, match=r"conflicts with|[Ii]ncompatible"):
        library.LanceDataset.commit(stale.uri, transaction)
    assert library.dataset(stale.uri).to_table()["id"].to_pylist() == [20]
