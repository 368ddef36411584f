"""Columns of tables of version 0.1, changed by both libraries in turns (S2.5, S2.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import assert_same

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

TABLE = pa.table(
    {
        "k": range(40),
        "t": [f"text {row}" for row in range(40)],
        "s": [{"x": row, "y": f"{row}"} for row in range(40)],
    }
)


def change(dataset: Any, step: str, number: int) -> None:
    if step == "sql":
        dataset.add_columns({f"a{number}": "k * 2", f"b{number}": "t"})
    elif step == "values":
        rows = range(dataset.count_rows())
        values = pa.table({f"v{number}": [[str(row)] for row in rows]})
        dataset.add_columns(values.to_reader(max_chunksize=7))
    elif step == "function":
        column = f"f{number}"
        dataset.add_columns(lambda batch: pa.record_batch({column: batch["k"]}), ["k"])
    elif step == "join":
        keys = pa.array([3, 4, 90], dataset.schema.field("k").type)
        dataset.merge(pa.table({"k": keys, f"j{number}": ["a", "b", "c"]}), "k")
    elif step == "retype":
        wider = dataset.schema.field("k").type == pa.int32()
        dataset.alter_columns({"path": "k", "data_type": pa.int64() if wider else pa.int32()})
    elif step == "retype member":
        wider = dataset.schema.field("s").type.field("x").type == pa.int32()
        dataset.alter_columns({"path": "s.x", "data_type": pa.int64() if wider else pa.int32()})
    elif step == "drop":
        dataset.drop_columns([dataset.schema.names[-1]])
    elif step == "update":
        dataset.update({"t": "concat(t, '!')"}, where="k % 7 = 1")
    elif step == "delete":
        dataset.delete(f"k % 11 = {number + 3}")
    else:
        dataset.optimize.compact_files()


STEPS = (
    "sql",
    "values",
    "function",
    "join",
    "retype",
    "retype member",
    "drop",
    "update",
    "delete",
    "compact",
)


@settings(max_examples=12)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), min_size=1, max_size=5),
    group=st.sampled_from([6, 10, 1024]),
    ours_first=st.booleans(),
)
def test_both_read_what_either_did(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, bool]],
    group: int,
    ours_first: bool,
) -> None:
    uri = str(tmp_path_factory.mktemp("legacy") / "t")
    maker: Any = pilum if ours_first else lance
    maker.write_dataset(
        TABLE, uri, data_storage_version="0.1", max_rows_per_file=25, max_rows_per_group=group
    )
    for number, (step, asked) in enumerate(steps):
        # The reference panics where it retypes a member that was retyped before.
        is_again = step == "retype member" and step in [earlier for earlier, _ in steps[:number]]
        dataset: Any = pilum.dataset(uri) if asked or is_again else lance.dataset(uri)
        if step == "drop" and dataset.schema.names[-1] == "s":
            continue
        change(dataset, step, number)
        found, theirs = pilum.dataset(uri), lance.dataset(uri)
        assert_same(found.to_table(), theirs.to_table())
        for filter in ("k = 4", "t = 'text 13' OR s.x > 30"):
            assert_same(found.to_table(filter=filter), theirs.to_table(filter=filter))


def test_files_are_registered_as_by_the_reference(tmp_path: Path) -> None:
    """A struct of several files is said to be in the one with its newest member."""
    listed = []
    for library in (pilum, lance):
        made: Any = library
        uri = str(tmp_path / made.__name__)
        made.write_dataset(TABLE, uri, data_storage_version="0.1", max_rows_per_group=16)
        dataset = made.dataset(uri)
        dataset.alter_columns({"path": "s.x", "data_type": pa.int8()})
        dataset.add_columns({"n": "k"})
        files = lance.dataset(uri).get_fragments()[0].metadata.files
        listed.append([(file.fields, file.column_indices) for file in files])
    assert listed[0] == listed[1] == [([0, 1, -2, 3, 4], []), ([2, 5], []), ([6], [])]
