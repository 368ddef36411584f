"""The arguments that commands share, and how they open a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError
from pilum.table.refs.references import Reference

__all__ = [
    "AsJson",
    "At",
    "Columns",
    "DryRun",
    "Storage",
    "Table",
    "opened",
    "pairs",
    "parameters",
    "reference",
    "storage_options",
]

Table = Annotated[
    str, typer.Argument(help="Location of the table: a path, or a URI such as s3://bucket/table.")
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage", metavar="KEY=VALUE", help="An option of the object store; may be repeated."
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="VERSION", help="Number, tag or branch:number; the newest by default."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", help="Name or dotted path of a column; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only report what would be done; change nothing.")
]


def opened(
    table: str, storage: Sequence[str] | None = None, version: str | None = None
) -> LanceDataset:
    """Open a table at a version that `reference` reads."""
    at = None if version is None else reference(version)
    return LanceDataset(table, at, storage_options=storage_options(storage))


def storage_options(given: Sequence[str] | None) -> dict[str, str]:
    """Return the options of `--storage`."""
    return dict(pairs("--storage", given or ()))


def reference(text: str) -> Reference:
    """Read `7` as a number, `branch:7` or `branch:` as a version of a branch, else as a tag."""
    branch, colon, number = text.rpartition(":")
    if not colon:
        return int(text) if text.isdecimal() else text
    if number and not number.isdecimal():
        raise InvalidInputError(f"--version {text}: expected a number after the colon")
    return branch or None, int(number) if number else None


def pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split texts `NAME=VALUE`."""
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"{option} {text}: expected NAME=VALUE")
        yield name, value


def parameters(option: str, given: Sequence[str] | None) -> Mapping[str, Any]:
    """Return texts `NAME=VALUE` as values: JSON, or else text."""
    return {name: _value(text) for name, text in pairs(option, given or ())}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
