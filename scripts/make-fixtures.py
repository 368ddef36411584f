#!/usr/bin/env python3
"""Writes tests/fixtures: small tables by old releases of the reference implementation.

    scripts/make-fixtures.py [RELEASE ...]

Each release is installed into an environment of its own in a temporary folder and writes the
tables of `TABLES` in every file version that it has. What it then reads from them itself is what
must be read for ever: `expected/TABLE.arrow` where that is what was written, else an Arrow file
beside the table. Archives that exist are left as they are: a fixture is never changed.
"""

from __future__ import annotations

import decimal
import inspect
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
RELEASES = {
    "0.4.21": ("pyarrow<13", ["0.1"]),
    "0.8.21": ("pyarrow<15", ["0.1"]),
    "0.10.18": ("pyarrow<15", ["0.1"]),
    "0.12.3": ("pyarrow<17", ["0.1", "2.0"]),
    "0.16.1": ("pyarrow<18", ["0.1", "2.0"]),
    "0.19.2": ("pyarrow<19", ["0.1", "2.0"]),
    "0.23.2": ("pyarrow<20", ["0.1", "2.0"]),
    "0.30.0": ("pyarrow<21", ["0.1", "2.0"]),
    "0.38.3": ("pyarrow<22", ["0.1", "2.0", "2.1"]),
    "1.0.4": ("pyarrow<23", ["2.0", "2.1"]),
    "2.0.1": ("pyarrow<23", ["2.0", "2.1", "2.2"]),
    "4.0.2": ("pyarrow<23", ["2.1", "2.2"]),
    "7.1.0": ("pyarrow<23", ["2.1", "2.2"]),
    "10.0.0": ("pyarrow<23", ["0.1", "2.0", "2.1", "2.2"]),
}
"""What to install beside each release, and the file versions that were not experimental in it."""
ROW_ID_RELEASES = ("0.30.0", "1.0.4", "7.1.0")
"""Those of which there are tables with stable row ids too, in archives of their own."""
TEXT_RELEASES = {"0.27.2": "pyarrow<20", "0.33.0": "pyarrow<21", "0.38.3": "pyarrow<22"}
"""Those of which there is a table with full-text indices, and what to install beside them."""
ROWS = 40


def main(releases: list[str]) -> None:
    """Installs releases and lets each write what is missing."""
    for release in releases:
        if release in RELEASES:
            arrow, versions = RELEASES[release]
            _make(release, FIXTURES / f"pylance-{release}.tar.xz", arrow, "--write", *versions)
        if release in ROW_ID_RELEASES:
            archive = FIXTURES / f"row-ids-{release}.tar.xz"
            _make(release, archive, RELEASES[release][0], "--write-row-ids")
        if release in TEXT_RELEASES:
            archive = FIXTURES / f"text-indices-{release}.tar.xz"
            _make(release, archive, TEXT_RELEASES[release], "--write-text-indices")


def _make(release: str, archive: Path, arrow: str, what: str, *versions: str) -> None:
    if not archive.exists():
        with tempfile.TemporaryDirectory() as folder:
            python, tables = Path(folder, "venv", "bin", "python"), Path(folder, "tables")
            venv.create(Path(folder, "venv"), with_pip=True)
            numpy = "numpy<2" if arrow < "pyarrow<18" else "numpy"
            wanted = [f"pylance=={release}", arrow, numpy, "setuptools<81"]
            pip = [python, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
            subprocess.run([*pip, *wanted], check=True)
            subprocess.run([python, __file__, what, release, tables, *versions], check=True)
            _pack(tables, archive)


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            packed.add(file, str(file.relative_to(folder)), filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def write(release: str, folder: Path, versions: list[str]) -> None:
    """Runs in the environment of one release: writes all tables that it can."""
    import lance
    import pyarrow as pa

    for version, options in _versions(lance, versions):
        for name, make in TABLES.items():
            path = folder / version / f"{name}.lance"
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                table = make(pa)
                half = ROWS // 2 if name == "integers" else ROWS  # two fragments
                lance.write_dataset(table.slice(0, half), str(path), **options)
                if half < ROWS:
                    lance.write_dataset(table.slice(half), str(path), mode="append", **options)
                if name == "deleted":
                    lance.dataset(str(path)).delete("i >= 5 and i < 12")
                _expect(pa, name, path, table, lance.dataset(str(path)).to_table())
            except BaseException as error:  # a panic of the library is none of Exception
                print(f"{release} {version} {name}: {str(error)[:200]!r}")
                shutil.rmtree(path, ignore_errors=True)


def write_row_ids(folder: Path) -> None:
    """Runs in the environment of one release: writes tables whose rows keep their ids.

    Two writes, and then, for all but the first table, a delete, an update and a merge; release
    0.30 fails at these. The ids of the first rows are what is in their column `a`.
    """
    import lance
    import pyarrow as pa

    names = ("enable_stable_row_ids", "enable_move_stable_row_ids")
    parameters = inspect.signature(lance.write_dataset).parameters
    option = next(name for name in names if name in parameters)
    table = pa.table({"a": range(ROWS), "b": [f"x{row}" for row in range(ROWS)]})
    for name in ("written", "moved", "compacted"):
        path = folder / "ids" / f"{name}.lance"
        path.parent.mkdir(parents=True, exist_ok=True)
        options = {"max_rows_per_file": 10, option: True}
        try:
            lance.write_dataset(table.slice(0, 25), str(path), **options)
            dataset = lance.write_dataset(table.slice(25), str(path), mode="append")
            if name != "written":
                dataset.delete("a % 7 = 3")
                dataset.update({"b": "'u'"}, where="a % 5 = 1")
                merge = dataset.merge_insert("a").when_matched_update_all()
                new = pa.table({"a": [0, 20, 100], "b": ["m"] * 3})
                merge.when_not_matched_insert_all().execute(new)
            if name == "compacted":
                dataset.optimize.compact_files()
            _save(pa, path.with_suffix(".arrow"), lance.dataset(str(path)).to_table())
        except BaseException as error:  # a panic of the library is none of Exception
            print(f"{name}: {str(error)[:200]!r}")
            shutil.rmtree(path, ignore_errors=True)


def write_text_indices(folder: Path) -> None:
    """Runs in the environment of one release: writes a table with full-text indices.

    One of words as they are, with positions; one of English stems without stop words. The last
    rows are in no index.
    """
    import lance
    import pyarrow as pa

    words = ("quick", "brown", "fox", "the", "running", "lazy")
    texts = _some(lambda row: " ".join(words[(row * row + i) % (2 + i)] for i in range(row % 6)))
    table = pa.table({"i": range(ROWS), "plain": texts, "english": texts[::-1]})
    path = folder / "texts" / "words.lance"
    path.parent.mkdir(parents=True)
    dataset = lance.write_dataset(table.slice(0, 35), str(path), max_rows_per_file=20)
    plain, english = ({"stem": own, "remove_stop_words": own} for own in (False, True))
    dataset.create_scalar_index("plain", "INVERTED", with_position=True, **plain)
    dataset.create_scalar_index("english", "INVERTED", with_position=False, **english)
    lance.write_dataset(table.slice(35), str(path), mode="append")
    _save(pa, path.with_suffix(".arrow"), lance.dataset(str(path)).to_table())


def _versions(lance: Any, versions: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """How the installed release is asked for these file versions."""
    parameters = inspect.signature(lance.write_dataset).parameters
    for flag in ("use_legacy_format", "use_experimental_writer"):
        if flag in parameters and "data_storage_version" not in parameters:
            old = flag == "use_legacy_format"
            return [(version, {flag: (version == "0.1") == old}) for version in versions]
    if "data_storage_version" not in parameters:
        return [(version, {}) for version in versions]
    names = {"0.1": "legacy"}
    return [
        (version, {"data_storage_version": names.get(version, version)}) for version in versions
    ]


def _expect(pa: Any, name: str, path: Path, written: Any, found: Any) -> None:
    """Puts what the release reads where the tests look for it."""
    shared = FIXTURES / "expected" / f"{name}.arrow"
    if not shared.exists():
        shared.parent.mkdir(parents=True, exist_ok=True)
        _save(pa, shared, written)
    if not found.combine_chunks().equals(written.combine_chunks()):
        _save(pa, path.with_suffix(".arrow"), found)


def _save(pa: Any, path: Path, table: Any) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _some(make: Any) -> list[Any]:
    """One value per row, every seventh missing."""
    return [None if row % 7 == 3 else make(row) for row in range(ROWS)]


def _integers(pa: Any) -> Any:
    kinds = {f"{s}int{b}": getattr(pa, f"{s}int{b}")() for s in ("", "u") for b in (8, 16, 32, 64)}
    columns = {name: pa.array(_some(lambda row: row * 3), kind) for name, kind in kinds.items()}
    full = {f"{name}_full": pa.array(range(ROWS), kind) for name, kind in kinds.items()}
    return pa.table({**columns, **full, "same": pa.array([7] * ROWS, pa.int64())})


def _plain(pa: Any) -> Any:
    odd = [0.0, -0.0, float("inf"), float("-inf"), 1.5]
    return pa.table(
        {
            "float": pa.array([odd[row % 5] for row in range(ROWS)], pa.float32()),
            "double": pa.array(_some(lambda row: row / 7), pa.float64()),
            "bool": pa.array([row % 3 == 0 for row in range(ROWS)]),
            "bool_null": pa.array(_some(lambda row: row % 2 == 0)),
            "date32": pa.array([date(2020, 1, 1) + timedelta(row) for row in range(ROWS)]),
            "date64": pa.array([row * 86_400_000 for row in range(ROWS)], pa.date64()),
            "time32": pa.array([time(row % 24, 5) for row in range(ROWS)], pa.time32("s")),
            "time64": pa.array([time(row % 24, 5, 1) for row in range(ROWS)], pa.time64("us")),
            "timestamp": pa.array([datetime(2021, 1, 1 + row % 28) for row in range(ROWS)]),
            "utc": pa.array([row * 10**6 for row in range(ROWS)], pa.timestamp("us", "UTC")),
            "duration": pa.array([timedelta(seconds=row) for row in range(ROWS)]),
            "decimal": pa.array(
                [decimal.Decimal(row) / 4 for row in range(ROWS)], pa.decimal128(10, 2)
            ),
        }
    )


def _fixed(pa: Any) -> Any:
    return pa.table({"fixed": pa.array([bytes([row] * 4) for row in range(ROWS)], pa.binary(4))})


def _texts(pa: Any) -> Any:
    texts = [("x" * (row % 5)) + str(row) for row in range(ROWS)]
    return pa.table(
        {
            "string": pa.array(texts),
            "nulls": pa.array(_some(lambda row: f"row {row}")),
            "empty": pa.array(["" if row % 2 else "a" for row in range(ROWS)]),
            "few": pa.array([("red", "green", "blue")[row % 3] for row in range(ROWS)]),
            "large": pa.array(texts, pa.large_string()),
            "binary": pa.array([text.encode() + b"\0\xff" for text in texts]),
            "large_binary": pa.array(_some(lambda row: bytes(row)), pa.large_binary()),
            "long": pa.array([texts[row] * 20 if row == 5 else "s" for row in range(ROWS)]),
        }
    )


def _lists(pa: Any) -> Any:
    return pa.table(
        {
            "lists": pa.array([[row] * (row % 4) for row in range(ROWS)], pa.list_(pa.int32())),
            "items_null": pa.array(
                [[None, row] if row % 3 else [] for row in range(ROWS)], pa.list_(pa.int64())
            ),
            "texts": pa.array(
                [[f"{row}", ""][: row % 3] for row in range(ROWS)], pa.list_(pa.string())
            ),
            "large": pa.array([[row / 2] for row in range(ROWS)], pa.large_list(pa.float32())),
            "nested": pa.array(
                [[[row], []][: row % 3] for row in range(ROWS)], pa.list_(pa.list_(pa.int16()))
            ),
            "nulls": pa.array(_some(lambda row: [row]), pa.list_(pa.int32())),
        }
    )


def _structs(pa: Any) -> Any:
    point = pa.struct([("x", pa.int32()), ("y", pa.string())])
    outer = pa.struct([("p", point), ("l", pa.list_(pa.int8())), ("v", pa.list_(pa.float32(), 2))])
    return pa.table(
        {
            "points": pa.array([{"x": row, "y": f"{row}"} for row in range(ROWS)], point),
            "members_null": pa.array(
                [{"x": None, "y": f"{row}" if row % 2 else None} for row in range(ROWS)], point
            ),
            "outer": pa.array(
                [
                    {"p": {"x": row, "y": ""}, "l": [row] * (row % 3), "v": [row, 0.5]}
                    for row in range(ROWS)
                ],
                outer,
            ),
            "list": pa.array(
                [[{"x": row, "y": "a"}] * (row % 3) for row in range(ROWS)], pa.list_(point)
            ),
        }
    )


def _null_structs(pa: Any) -> Any:
    point = pa.struct([("x", pa.int32()), ("y", pa.string())])
    rows = _some(lambda row: {"x": row, "y": f"{row}"})
    return pa.table({"points": pa.array(rows, point)})


def _vectors(pa: Any) -> Any:
    rows = [[row / 4, row, -row, 0.5] for row in range(ROWS)]
    return pa.table(
        {
            "float": pa.array(rows, pa.list_(pa.float32(), 4)),
            "double": pa.array(rows, pa.list_(pa.float64(), 4)),
            "int8": pa.array([[row, 1] for row in range(ROWS)], pa.list_(pa.int8(), 2)),
            "wide": pa.array([[row] * 40 for row in range(ROWS)], pa.list_(pa.float32(), 40)),
        }
    )


def _vectors_null(pa: Any) -> Any:
    rows = _some(lambda row: [row, 0.5])
    return pa.table({"vector": pa.array(rows, pa.list_(pa.float32(), 2))})


def _dictionary(pa: Any) -> Any:
    indices = pa.array([row % 3 for row in range(ROWS)], pa.int8())
    return pa.table(
        {"colour": pa.DictionaryArray.from_arrays(indices, pa.array(["red", "green", "blue"]))}
    )


def _nulls(pa: Any) -> Any:
    return pa.table({"null": pa.nulls(ROWS), "int": pa.nulls(ROWS, pa.int32())})


def _map(pa: Any) -> Any:
    rows = [[(f"k{row}", row)] * (row % 2) for row in range(ROWS)]
    return pa.table({"map": pa.array(rows, pa.map_(pa.string(), pa.int32()))})


def _deleted(pa: Any) -> Any:
    return pa.table({"i": pa.array(range(ROWS), pa.int64())})


TABLES = {
    "integers": _integers,
    "plain": _plain,
    "fixed": _fixed,
    "texts": _texts,
    "lists": _lists,
    "structs": _structs,
    "null_structs": _null_structs,
    "vectors": _vectors,
    "vectors_null": _vectors_null,
    "dictionary": _dictionary,
    "nulls": _nulls,
    "map": _map,
    "deleted": _deleted,
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        os.environ.setdefault("RUST_LOG", "error")
        write(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    elif sys.argv[1:2] == ["--write-row-ids"]:
        os.environ.setdefault("RUST_LOG", "error")
        write_row_ids(Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--write-text-indices"]:
        os.environ.setdefault("RUST_LOG", "error")
        write_text_indices(Path(sys.argv[3]))
    else:
        main(sys.argv[1:] or [*RELEASES, *TEXT_RELEASES])
