"""All commands, in the order and groups of `pilum --help`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from pilum.cli import history, indices, pages, rows, tables, transfer, upkeep
from pilum.cli.job import job
from pilum.version import __version__

__all__ = ["app"]

_Commands = dict[str, Callable[..., Any]]

_LOOK: _Commands = {
    "ls": tables.ls,
    "info": tables.info,
    "schema": tables.schema,
    "show": rows.show,
    "stats": tables.stats,
    "files": tables.files,
    "du": tables.du,
    "pages": pages.pages,
    "explain": pages.explain_query,
    "versions": history.versions,
    "diff": history.diff,
    "bench": transfer.bench,
}
_ROWS: _Commands = {
    "cat": rows.cat,
    "tail": rows.tail,
    "sql": rows.sql,
    "convert": transfer.convert,
}
_UPKEEP: _Commands = {
    "doctor": upkeep.doctor,
    "verify": upkeep.verify,
    "repair": upkeep.repair,
    "compact": upkeep.compact,
    "cleanup": upkeep.cleanup,
}
_INDEX: _Commands = {
    "list": indices.list_all,
    "create": indices.create,
    "optimize": indices.optimize,
    "drop": indices.drop,
    "show": indices.show,
    "recall": indices.recall,
}
_GROUPS: dict[str, _Commands] = {
    "Look": _LOOK,
    "Rows": _ROWS,
    "Maintain": _UPKEEP,
    "Spark": {"job": job},
}


def _new(text: str, completion: bool = False) -> typer.Typer:
    return typer.Typer(
        help=text, no_args_is_help=True, add_completion=completion, pretty_exceptions_enable=False
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pilum {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version of pilum."
        ),
    ] = False,
) -> None:
    """Look into Lance tables, and maintain them."""


def _app() -> typer.Typer:
    found = _new("Look into Lance tables, and maintain them.", completion=True)
    found.callback()(_options)
    for group, commands in _GROUPS.items():
        for name, command in commands.items():
            found.command(name, rich_help_panel=group)(command)
    index = _new("List, create, optimize, drop, show and measure indices.")
    for name, command in _INDEX.items():
        index.command(name)(command)
    found.add_typer(index, name="index", rich_help_panel="Maintain")
    return found


app = _app()
