"""Commands that print rows: `show`, `cat`, `tail` and `sql`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import typer

from pilum.arrays import python_values
from pilum.cli.arguments import AsJson, At, Columns, Storage, Table, opened, pairs, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import console, note, print_grid, print_json, print_line, say, shown_json
from pilum.errors import DatasetAlreadyExistsError, InvalidInputError
from pilum.inspection.conversion import FORMATS, exists, replacing, write_rows
from pilum.inspection.following import NewVersion, last_rows, new_versions
from pilum.inspection.queries import query
from pilum.inspection.values import json_lines, rows_of
from pilum.pictures.words import size_text, visible
from pilum.storage.open import open_object

__all__ = ["cat", "show", "sql", "tail"]

_MOST_CHARACTERS = 32
_MOST_ITEMS = 4
_COLUMN_CHARACTERS = 12
"""Columns of a terminal that one column of the table needs at least."""

Filter = Annotated[str | None, typer.Option("--filter", "-f", help="A condition in SQL.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Number of rows.")]


def show(
    table: Table,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Number of rows.")] = 10,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Rows to skip.")] = 0,
    columns: Columns = None,
    filter_: Filter = None,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Print rows; long values are shortened, and columns that do not fit are left out."""
    dataset = opened(table, storage, version)
    rows = dataset.to_table(columns=columns, filter=filter_, limit=limit, offset=offset)
    _print_rows(rows, as_json)
    return Exit.DONE


def cat(
    table: Table,
    format_: Annotated[
        str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}; json is a row per line.")
    ] = "csv",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Location of a new file.")
    ] = None,
    limit: Limit = None,
    columns: Columns = None,
    filter_: Filter = None,
    version: At = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    storage: Storage = None,
) -> Exit:
    """Write rows as CSV, JSON or Parquet, to standard output or to a file."""
    dataset = opened(table, storage, version)
    scanner = dataset.scanner(columns=columns, filter=filter_, limit=limit)
    if output is None:
        if format_ == "parquet" and sys.stdout.isatty():
            raise InvalidInputError("parquet is binary: pass --output, or redirect the output")
        sys.stdout.flush()
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as target:
            write_rows(scanner.to_reader(), format_, target)
        return Exit.DONE
    options = storage_options(storage)
    if not force and exists(*open_object(output, options)):
        raise DatasetAlreadyExistsError(f"{output} exists; pass --force to replace it")
    with replacing(output, options) as file:
        count = write_rows(scanner.to_reader(), format_, file)
    note(f"wrote {count:,} rows to {output}")
    return Exit.DONE


def tail(
    table: Table,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Number of rows.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what new versions add and delete.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.01, help="Seconds between looks for new versions.")
    ] = 1.0,
    until: Annotated[
        int | None, typer.Option("--until", help="End after this version; with --follow.")
    ] = None,
    columns: Columns = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Print the last rows, and with `--follow` those that new versions add, change or delete.

    Deleted rows have a minus sign before them, and `"_change_type": "delete"` in JSON.
    """
    dataset = opened(table, storage)
    seen = dataset.version
    _print_batches(last_rows(dataset, limit, columns), as_json)
    while follow and (until is None or seen < until):
        for new in new_versions(dataset, seen, columns):
            _print_new(new, as_json)
            seen = new.change.version
        if until is None or seen < until:
            time.sleep(interval)
    return Exit.DONE


def sql(
    table: Table,
    text: Annotated[
        str, typer.Argument(metavar="QUERY", help="A SELECT; the table is named `dataset`.")
    ],
    more: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME=LOCATION", help="A further table of the query."),
    ] = None,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Run a query with DuckDB, which has to be installed."""
    tables = {"dataset": opened(table, storage, version)}
    tables |= {name: opened(place, storage) for name, place in pairs("--table", more or ())}
    _print_rows(query(text, tables), as_json)
    return Exit.DONE


def _print_rows(rows: pa.Table, as_json: bool) -> None:
    if as_json:
        print_json(list(rows_of(rows)))
        return
    printer = console()
    most = max(printer.width // _COLUMN_CHARACTERS, 1)
    names = rows.schema.names[:most]
    values = (
        [_shortened(row[place]) for place in range(len(names))]
        for row in zip(
            *(python_values(rows.column(place)) for place in range(len(names))), strict=True
        )
    )
    numbers = [
        name
        for name, kind in zip(names, rows.schema.types, strict=False)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ]
    print_grid(names, values, numbers)
    if (left := rows.num_columns - len(names)) > 0:
        say(f"and {left:,} more columns: {', '.join(rows.schema.names[most:])}")


def _shortened(value: Any) -> str:
    """Return a value in few characters: long texts, lists and bytes are shortened."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"{value[:8].hex()}… {size_text(len(value))}" if len(value) > 8 else value.hex()
    if isinstance(value, list):
        items = [_shortened(one) for one in value[:_MOST_ITEMS]]
        items += [f"… {len(value):,} in all"] if len(value) > _MOST_ITEMS else []
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_shortened(one)}' for name, one in value.items())}}}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _print_batches(
    batches: Iterator[pa.RecordBatch], as_json: bool, *, are_deleted: bool = False
) -> None:
    mark = "- " if are_deleted else ""
    for batch in batches:
        if as_json:
            if are_deleted:
                batch = batch.append_column("_change_type", pa.repeat("delete", len(batch)))
            sys.stdout.write(shown_json(json_lines(batch).decode()))
        else:
            for row in rows_of(batch):
                say(
                    mark
                    + "  ".join(f"{visible(name)}={_shortened(one)}" for name, one in row.items())
                )
    sys.stdout.flush()


def _print_new(new: NewVersion, as_json: bool) -> None:
    change, counts = new.change, new.change.difference
    if as_json:
        print_line({"version": change.version, "operation": change.operation, "changes": counts})
    elif counts is None:
        note(f"version {change.version}: {change.operation}")
    else:
        note(
            f"version {change.version}: {change.operation}, {counts.rows_added:,} rows added, "
            f"{counts.rows_changed:,} changed, {counts.rows_removed:,} removed"
        )
    _print_batches(new.rows, as_json)
    _print_batches(new.deleted, as_json, are_deleted=True)
