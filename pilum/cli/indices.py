"""Commands of `pilum index`: list, create, optimize, drop, show and measure indices of a table."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pilum.cli.outcome import Exit
from pilum.dataset.index_forms import IndexConfig, IndexDescription
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import IndexNotFoundError, InvalidInputError, UnsupportedFeatureError

__all__ = ["add_index_commands", "run_index_command"]


def add_index_commands(parser: ArgumentParser) -> None:
    """Add the commands and their arguments."""
    commands = parser.add_subparsers(dest="action", required=True)
    for name, text in (
        ("list", "name, type, columns, segments, rows and bytes of each index"),
        ("create", "index a column"),
        ("optimize", "add new rows to indices, and merge segments"),
        ("drop", "remove an index"),
        ("show", "all that is known of an index, as JSON"),
        ("recall", "which share of the nearest rows a vector index finds, and how fast"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("path", help="location of the table")
        if name == "create":
            command.add_argument("column", help="the column, or the dotted path of a member")
            command.add_argument("type", help="type of the index, such as BTREE")
            command.add_argument("--name", help="name of the index; {column}_idx by default")
            command.add_argument(
                "--set",
                action="append",
                default=[],
                metavar="PARAMETER=VALUE",
                help="a parameter of the type; the value is JSON, or else text",
            )
            command.add_argument("--replace", action="store_true", help="replace the index")
        if name == "optimize":
            command.add_argument("name", nargs="*", help="names of indices; all by default")
            command.add_argument("--merge", type=int, help="number of segments to merge")
            command.add_argument("--retrain", action="store_true", help="index all rows again")
        if name == "recall":
            _add_recall_arguments(command)
        if name in {"drop", "show"}:
            command.add_argument("name", help="name of the index")


def _add_recall_arguments(command: ArgumentParser) -> None:
    command.add_argument("column", help="the column with the index")
    command.add_argument("--k", type=int, default=10, help="number of rows per query")
    command.add_argument("--queries", type=int, help="number of queries, which are random rows")
    for name, text in (
        ("nprobes", "numbers of partitions to try"),
        ("ef", "beam widths to try, for graphs"),
        ("refine-factor", "refinements to try"),
    ):
        command.add_argument(f"--{name}", type=_numbers, metavar="N,N,…", help=text)
    command.add_argument("--least", type=float, default=0.95, help="recall of the suggestion")
    command.add_argument("--svg", type=Path, metavar="FILE", help="write the chart as SVG")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def run_index_command(arguments: Namespace) -> Exit:
    """Run the command that was chosen."""
    dataset = LanceDataset(arguments.path)
    if arguments.action == "list":
        for one in dataset.describe_indices():
            print(_line(dataset, one))
    elif arguments.action == "create":
        config = IndexConfig(arguments.type, dict(_parameters(arguments.set)))
        dataset.create_scalar_index(
            arguments.column, config, arguments.name, replace=arguments.replace
        )
    elif arguments.action == "optimize":
        dataset.optimize.optimize_indices(
            num_indices_to_merge=arguments.merge,
            index_names=arguments.name or None,
            retrain=arguments.retrain,
        )
    elif arguments.action == "recall":
        _show_recall(dataset, arguments)
    elif arguments.action == "drop":
        dataset.drop_index(arguments.name)
    else:
        print(json.dumps(_shown(dataset, arguments.name), indent=2, default=str))
    return Exit.DONE


def _show_recall(dataset: LanceDataset, arguments: Namespace) -> None:
    report = dataset.index_recall(
        arguments.column,
        k=arguments.k,
        num_queries=arguments.queries,
        nprobes=arguments.nprobes,
        ef=arguments.ef,
        refine_factor=arguments.refine_factor,
    )
    print(report)
    print(report.chart().to_text())
    choice = report.suggestion(arguments.least)
    print(f"suggestion: {choice or f'no settings reach a recall of {arguments.least}'}")
    if arguments.svg is not None:
        arguments.svg.write_text(report.chart().to_svg())


def _line(dataset: LanceDataset, one: IndexDescription) -> str:
    size = "?" if one.total_size_bytes is None else f"{one.total_size_bytes:,}"
    return (
        f"{one.name}  {one.index_type}  {', '.join(one.field_names)}  "
        f"{len(one.segments)} segments  "
        f"{one.num_rows_indexed:,} of {dataset.count_rows():,} rows  {size} bytes"
    )


def _parameters(given: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError(f"--set {text}: expected PARAMETER=VALUE")
        try:
            yield name, json.loads(value)
        except ValueError:
            yield name, value


def _shown(dataset: LanceDataset, name: str) -> dict[str, Any]:
    found = [one for one in dataset.describe_indices() if one.name == name]
    if not found:
        raise IndexNotFoundError(f"{dataset.uri}: no index {name!r}")
    shown: dict[str, Any] = {
        "name": name,
        "type": found[0].index_type,
        "columns": found[0].field_names,
        "details": found[0].details,
        "segments": [
            {**vars(one), "fragment_ids": None if one.fragment_ids is None else [*one.fragment_ids]}
            for one in found[0].segments
        ],
    }
    try:
        shown["statistics"] = dataset.stats.index_stats(name)
    except UnsupportedFeatureError as error:
        shown["statistics"] = str(error)
    return shown
