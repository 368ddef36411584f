"""Commands of `pilum index`: list, create, optimize, drop, show and measure indices of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pilum.cli.arguments import (
    AsJson,
    DryRun,
    Storage,
    Table,
    opened,
    parameters,
)
from pilum.cli.outcome import Exit
from pilum.cli.output import print_grid, print_json, say
from pilum.dataset.index_forms import IndexConfig, IndexDescription
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import (
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)

__all__ = ["create", "drop", "list_all", "optimize", "recall", "show"]

Name = Annotated[str, typer.Argument(help="Name of the index.")]


def list_all(table: Table, storage: Storage = None, as_json: AsJson = False) -> Exit:
    """List name, type, columns, segments, rows and bytes of each index."""
    dataset = opened(table, storage)
    found = [_facts(one) for one in dataset.describe_indices()]
    if as_json:
        print_json(found)
        return Exit.DONE
    total = dataset.count_rows()
    names = ("name", "type", "columns", "segments", "rows", "bytes")
    rows = [
        (
            one["name"],
            one["type"],
            ", ".join(one["columns"]),
            one["segments"],
            f"{one['rows']:,} of {total:,}",
            "?" if one["bytes"] is None else one["bytes"],
        )
        for one in found
    ]
    print_grid(names, rows, ("segments", "rows", "bytes"))
    return Exit.DONE


def create(
    table: Table,
    column: Annotated[str, typer.Argument(help="The column, or the dotted path of a member.")],
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Type of the index, as BTREE.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the index; {column}_idx by default.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PARAMETER=VALUE",
            help="A parameter of the type; the value is JSON, or else text.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the index.")] = False,
    dry_run: DryRun = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Index a column."""
    dataset = opened(table, storage)
    config = IndexConfig(type_, dict(parameters("--set", set_)))
    index_name = name or f"{column}_idx"
    planned = {
        "name": index_name,
        "type": type_,
        "column": column,
        "parameters": config.parameters,
        "rows": dataset.count_rows(),
    }
    if dry_run:
        _require_possible(dataset, index_name, column, replace)
        text = f"would index {planned['rows']:,} rows of {column!r} as {index_name!r} ({type_})"
    else:
        dataset.create_scalar_index(column, config, name, replace=replace)
        text = f"indexed {planned['rows']:,} rows; the table is at version {dataset.version}"
    print_json(planned | {"version": dataset.version}) if as_json else say(text)
    return Exit.DONE


def optimize(
    table: Table,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Indices; all by default.")
    ] = None,
    merge: Annotated[
        int | None, typer.Option("--merge", help="Number of segments to merge.")
    ] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Index all rows again.")] = False,
    dry_run: DryRun = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Add new rows to indices, and merge segments."""
    dataset = opened(table, storage)
    chosen = [_described(dataset, name) for name in names or ()] or dataset.describe_indices()
    rows = dataset.count_rows()
    planned = [
        {"name": one.name, "rows_to_index": rows if retrain else rows - one.num_rows_indexed}
        for one in chosen
    ]
    if not dry_run:
        dataset.optimize.optimize_indices(
            num_indices_to_merge=merge, index_names=names or None, retrain=retrain
        )
    if as_json:
        print_json({"indices": planned, "version": dataset.version})
    else:
        verb = "would index" if dry_run else "indexed"
        say("\n".join(f"{one['name']}: {verb} {one['rows_to_index']:,} rows" for one in planned))
    return Exit.DONE


def drop(
    table: Table,
    name: Name,
    dry_run: DryRun = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Remove an index."""
    dataset = opened(table, storage)
    found = _facts(_described(dataset, name))
    if not dry_run:
        dataset.drop_index(name)
    if as_json:
        print_json({"dropped": found, "version": dataset.version})
    else:
        say(f"{'would drop' if dry_run else 'dropped'} {name}")
    return Exit.DONE


def show(table: Table, name: Name, storage: Storage = None) -> Exit:
    """Print all that is known of an index, as JSON."""
    dataset = opened(table, storage)
    found = _described(dataset, name)
    shown: dict[str, Any] = {
        "name": name,
        "type": found.index_type,
        "columns": found.field_names,
        "details": found.details,
        "segments": [
            {**vars(one), "fragment_ids": None if one.fragment_ids is None else [*one.fragment_ids]}
            for one in found.segments
        ],
    }
    try:
        shown["statistics"] = dataset.stats.index_stats(name)
    except UnsupportedFeatureError as error:
        shown["statistics"] = str(error)
    print_json(shown)
    return Exit.DONE


def recall(
    table: Table,
    column: Annotated[str, typer.Argument(help="The column with the index.")],
    k: Annotated[int, typer.Option("--k", help="Number of rows per query.")] = 10,
    queries: Annotated[
        int | None, typer.Option("--queries", help="Number of queries, which are random rows.")
    ] = None,
    nprobes: Annotated[
        str | None,
        typer.Option("--nprobes", metavar="N,N,…", help="Numbers of partitions to try."),
    ] = None,
    ef: Annotated[
        str | None, typer.Option("--ef", metavar="N,N,…", help="Beam widths to try, for graphs.")
    ] = None,
    refine_factor: Annotated[
        str | None, typer.Option("--refine-factor", metavar="N,N,…", help="Refinements to try.")
    ] = None,
    least: Annotated[float, typer.Option("--least", help="Recall of the suggestion.")] = 0.95,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the chart as SVG.")
    ] = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Measure which share of the nearest rows a vector index finds, and how fast."""
    report = opened(table, storage).index_recall(
        column,
        k=k,
        num_queries=queries,
        nprobes=_numbers("--nprobes", nprobes),
        ef=_numbers("--ef", ef),
        refine_factor=_numbers("--refine-factor", refine_factor),
    )
    choice = report.suggestion(least)
    if as_json:
        print_json({"report": report, "suggestion": choice})
    else:
        say(f"{report}\n{report.chart().to_text()}")
        say(f"suggestion: {choice or f'no settings reach a recall of {least}'}")
    if svg is not None:
        svg.write_text(report.chart().to_svg(), encoding="utf-8")
    return Exit.DONE


def _numbers(option: str, text: str | None) -> Sequence[int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InvalidInputError(f"{option} {text}: expected numbers, separated by commas")
    return [int(part) for part in parts]


def _facts(one: IndexDescription) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": one.index_type,
        "columns": one.field_names,
        "segments": len(one.segments),
        "rows": one.num_rows_indexed,
        "bytes": one.total_size_bytes,
    }


def _described(dataset: LanceDataset, name: str) -> IndexDescription:
    for one in dataset.describe_indices():
        if one.name == name:
            return one
    raise IndexNotFoundError(f"{dataset.uri}: no index {name!r}")


def _require_possible(dataset: LanceDataset, name: str, column: str, replace: bool) -> None:
    """Raise the error of a creation that is certain to fail."""
    dataset.lance_schema.stored.project([column])
    if not replace and any(one.name == name for one in dataset.describe_indices()):
        raise IndexAlreadyExistsError(f"{dataset.uri}: there is an index {name!r} already")
