"""Commands that copy a table to or from Parquet, and that time its reads."""

from __future__ import annotations

from typing import Annotated

import typer

from pilum.cli.arguments import AsJson, At, Columns, DryRun, Storage, Table, opened, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import print_grid, print_json, say
from pilum.dataset.lance_dataset import LanceDataset, write_dataset
from pilum.errors import DatasetAlreadyExistsError, InvalidInputError
from pilum.inspection.conversion import exists, parquet_files, parquet_reader, replacing, write_rows
from pilum.inspection.timing import time_reads
from pilum.pictures.words import size_text
from pilum.storage.open import open_object
from pilum.table.versions.commit_handler import latest_manifest, open_table

__all__ = ["bench", "convert"]

_SUFFIX = ".parquet"
_MODES = ("create", "append", "overwrite")


def convert(
    source: Annotated[
        str, typer.Argument(help="A table, a Parquet file, or a folder of Parquet files.")
    ],
    target: Annotated[
        str, typer.Argument(help="A new Parquet file for a table; a table for Parquet.")
    ],
    mode: Annotated[
        str, typer.Option("--mode", help=f"For a target table: one of {', '.join(_MODES)}.")
    ] = "create",
    dry_run: DryRun = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Copy Parquet files to a table, or a table to one Parquet file."""
    options = storage_options(storage)
    if latest_manifest(open_table(source, options)) is not None:
        rows = _to_parquet(source, target, storage, dry_run)
    else:
        rows = _from_parquet(source, target, mode, options, dry_run)
    if as_json:
        print_json({"source": source, "target": target, "rows": rows, "dry_run": dry_run})
    else:
        say(f"{'would write' if dry_run else 'wrote'} {rows:,} rows to {target}")
    return Exit.DONE


def _to_parquet(source: str, target: str, storage: list[str] | None, dry_run: bool) -> int:
    dataset, options = opened(source, storage), storage_options(storage)
    if not target.endswith(_SUFFIX):
        raise InvalidInputError(f"{target}: expected a name that ends with {_SUFFIX}")
    if exists(*open_object(target, options)):
        raise DatasetAlreadyExistsError(f"{target} exists; remove it first")
    if dry_run:
        return dataset.count_rows()
    with replacing(target, options) as file:
        return write_rows(dataset.scanner().to_reader(), "parquet", file)


def _from_parquet(
    source: str, target: str, mode: str, options: dict[str, str], dry_run: bool
) -> int:
    reader, rows = parquet_reader(parquet_files(source, options))
    if mode not in _MODES:
        raise InvalidInputError(f"--mode {mode}: expected one of {', '.join(_MODES)}")
    if mode == "create" and latest_manifest(open_table(target, options)) is not None:
        raise DatasetAlreadyExistsError(f"there is a table at {target}; pass another --mode")
    if not dry_run:
        write_dataset(reader, target, mode=mode, storage_options=options)
    return rows


def bench(
    table: Table,
    columns: Columns = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", "-f", help="The condition to count.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of random rows.")] = 1000,
    runs: Annotated[int, typer.Option("--runs", min=2, help="Runs of each.")] = 5,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Time a scan, random rows and a filter of this table; nothing is changed."""
    dataset: LanceDataset = opened(table, storage, version)
    found = list(time_reads(dataset, columns, filter_, num_rows=rows, runs=runs))
    if as_json:
        print_json(found)
        return Exit.DONE
    names = ("", "median", "best", "first run", "rows/s", "MB/s", "read", "requests")
    lines = [
        (
            one.what,
            f"{one.median_seconds * 1e3:,.2f} ms",
            f"{one.best_seconds * 1e3:,.2f} ms",
            f"{one.first_seconds * 1e3:,.2f} ms",
            round(one.rows / one.median_seconds),
            "" if one.size_bytes is None else round(one.size_bytes / one.median_seconds / 1e6),
            size_text(one.bytes_read),
            one.requests,
        )
        for one in found
    ]
    print_grid(names, lines, names[1:])
    return Exit.DONE
