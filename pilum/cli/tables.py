"""Commands that look into a folder of tables, or one table: what it is and where its bytes are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from pilum.cli.arguments import AsJson, At, Columns, Storage, Table, opened, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import print_grid, print_json, say
from pilum.inspection.sizes import files_of, sizes_of
from pilum.inspection.summaries import columns_of, summary_of, tables_in
from pilum.pictures.words import size_text
from pilum.table.read.column_statistics import ColumnSummary, summarize

__all__ = ["du", "files", "info", "ls", "schema", "stats"]

_MOST_CHARACTERS = 48
"""Characters of the smallest and largest value."""


def ls(
    location: Annotated[str, typer.Argument(help="A folder or prefix with tables, or a table.")],
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """List the tables in a folder: version, rows, columns, fragments and bytes."""
    found = list(tables_in(location, storage_options(storage)))
    faulty = any(one.fault for one in found)
    if as_json:
        print_json(found)
        return Exit.FAILED if faulty else Exit.DONE
    names = ("table", "version", "committed (UTC)", "rows", "columns", "fragments", "data", "")
    rows = [
        (
            one.uri.rstrip("/").rpartition("/")[2],
            one.version,
            one.committed,
            one.rows,
            one.columns,
            one.fragments,
            None if one.data_bytes is None else size_text(one.data_bytes),
            one.fault,
        )
        for one in found
    ]
    print_grid(names, rows, ("version", "rows", "columns", "fragments", "data"))
    return Exit.FAILED if faulty else Exit.DONE


def info(
    table: Table, version: At = None, storage: Storage = None, as_json: AsJson = False
) -> Exit:
    """Print version, rows, fragments, bytes, indices and columns of a table."""
    dataset = opened(table, storage, version)
    facts = summary_of(dataset)
    if as_json:
        print_json({**asdict(facts), "schema": columns_of(dataset)})
        return Exit.DONE
    say(f"version    {facts.version}")
    say(f"rows       {facts.rows:,}")
    if facts.deleted_rows:
        say(f"deleted    {facts.deleted_rows:,} rows")
    say(f"fragments  {facts.fragments:,}")
    say(f"data       {facts.data_bytes:,} bytes")
    say(f"files      version {facts.data_storage_version}")
    if facts.indices:
        say(f"indices    {', '.join(facts.indices)}")
    for field in dataset.schema:
        say(f"  {field.name}: {field.type}{'' if field.nullable else ' not null'}")
    return Exit.DONE


def schema(
    table: Table, version: At = None, storage: Storage = None, as_json: AsJson = False
) -> Exit:
    """Print the columns with their ids, types and metadata; nested ones are indented."""
    dataset = opened(table, storage, version)
    fields = columns_of(dataset)
    if as_json:
        print_json({"fields": fields, "metadata": dataset.schema_metadata})
        return Exit.DONE
    parents = dataset.lance_schema.stored
    rows = []
    for one in fields:
        depth, field = 0, parents.find(one.id)  # type: ignore[arg-type]
        name = field.name if field else one.path
        while field is not None and (field := parents.parent(field)) is not None:
            depth += 1
        metadata = ", ".join(f"{key}={value}" for key, value in one.metadata.items())
        null = "" if one.nullable else "not null"
        rows.append((f"{'  ' * depth}{name}", one.id, one.type, null, metadata))
    print_grid(("column", "id", "type", "", "metadata"), rows, ("id",))
    return Exit.DONE


def files(
    table: Table, version: At = None, storage: Storage = None, as_json: AsJson = False
) -> Exit:
    """List the data files and deletion files of a version, by fragment."""
    found = list(files_of(opened(table, storage, version)))
    if as_json:
        print_json(found)
        return Exit.DONE
    rows = [
        (
            one.fragment,
            one.kind,
            one.path if one.base_id is None else f"(base {one.base_id}) {one.path}",
            one.rows,
            None if one.size_bytes is None else size_text(one.size_bytes),
            one.version,
            ", ".join(one.columns),
        )
        for one in found
    ]
    names = ("fragment", "kind", "path", "rows", "size", "version", "columns")
    print_grid(names, rows, ("fragment", "rows", "size"))
    return Exit.DONE


def du(table: Table, version: At = None, storage: Storage = None, as_json: AsJson = False) -> Exit:
    """Print the bytes of each column of a version, and of all files by kind."""
    sizes = sizes_of(opened(table, storage, version))
    if as_json:
        print_json(sizes)
        return Exit.DONE
    total = sum(one.size_bytes for one in sizes.columns) or 1
    rows = [
        (
            one.name,
            size_text(one.size_bytes),
            f"{one.size_bytes / total:.1%}",
            one.pages,
            f"{one.raw_bytes / one.size_bytes:.1f}" if one.raw_bytes and one.size_bytes else "",
        )
        for one in sizes.columns
    ]
    names = ("column", "size", "share", "pages", "ratio")
    print_grid(names, rows, names[1:])
    kinds = [(one.kind, size_text(one.size_bytes), one.files) for one in sizes.files]
    print()
    print_grid(("files of all versions", "size", "files"), kinds, ("size", "files"))
    say(f"\ndata files of this version: {size_text(sizes.version_bytes)}")
    return Exit.DONE


def stats(
    table: Table,
    columns: Columns = None,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Print nulls, distinct values, smallest and largest value of each column; reads the table."""
    dataset = opened(table, storage, version)
    names = [
        field.name
        for field in dataset.lance_schema.stored.project(
            columns or dataset.lance_schema.stored.names
        ).fields
        if not field.blob_version
    ]
    found = summarize(dataset.snapshot, names)
    facts = [{"column": name, **_values(found[name])} for name in names]
    if as_json:
        print_json(facts)
        return Exit.DONE
    heads = ("column", "type", "rows", "nulls", "distinct", "min", "max")
    rows = [
        (
            one["column"],
            str(dataset.schema.field(one["column"]).type),
            one["rows"],
            one["nulls"],
            one["distinct"],
            _shortened(one["min"]),
            _shortened(one["max"]),
        )
        for one in facts
    ]
    print_grid(heads, rows, ("rows", "nulls", "distinct"))
    return Exit.DONE


def _values(found: ColumnSummary) -> dict[str, Any]:
    return {
        "rows": found.num_rows,
        "nulls": found.null_count,
        "distinct": None if found.distinct is None else found.distinct.count,
        "min": found.min,
        "max": found.max,
    }


def _shortened(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
