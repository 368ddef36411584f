"""Commands about the versions of a table: `versions` and `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilum.cli.arguments import AsJson, Storage, Table, opened, reference, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import note, print_grid, print_json, say
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import CorruptFileError
from pilum.inspection.history import Difference, VersionChange, changes_of, differences, picture_of
from pilum.pictures.history_svg import history_svg
from pilum.pictures.words import size_text
from pilum.table.versions.commit_handler import open_table
from pilum.table.versions.history import newest_sound

__all__ = ["diff", "versions"]


def versions(
    table: Table,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Only the newest versions.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the history as a picture.")
    ] = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """List the versions, oldest first, with what each commit changed; damaged ones too."""
    changes = changes_of(_readable(table, storage), most=limit)
    if svg is not None:
        drawn = history_svg(picture_of(table.rstrip("/").rpartition("/")[2], changes))
        svg.write_text(drawn, encoding="utf-8")
        note(f"wrote {svg}")
    elif as_json:
        print_json(changes)
    else:
        names = ("version", "committed (UTC)", "operation", "rows", "changes")
        rows = [
            (str(one.version), one.committed, one.operation, one.rows, _words(one))
            for one in changes
        ]
        print_grid(names, rows, ("version", "rows"))
    return Exit.DONE


def diff(
    table: Table,
    older: Annotated[str, typer.Argument(metavar="OLDER", help="Number or tag of a version.")],
    newer: Annotated[
        str | None, typer.Argument(metavar="[NEWER]", help="A later one; the newest by default.")
    ] = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare two versions: rows, columns, indices, settings and files."""
    latest = opened(table, storage)
    first = latest.checkout_version(reference(older))
    last = latest if newer is None else latest.checkout_version(reference(newer))
    found = differences(first, last)
    if as_json:
        print_json({"older": first.version, "newer": last.version, "difference": found})
        return Exit.DONE
    exact = "by row ids" if found.is_exact else "commit by commit"
    say(f"version {first.version} to {last.version}")
    say(f"rows       {_rows(found)} (counted {exact})")
    for title, values in (
        ("columns", _changes(found.columns_added, found.columns_removed, found.columns_changed)),
        ("indices", _changes(found.indices_added, found.indices_removed)),
        ("settings", list(found.config_changed)),
    ):
        for number, value in enumerate(values):
            say(f"{title if number == 0 else '':<10} {value}")
    say(f"fragments  +{found.fragments_added:,} -{found.fragments_removed:,}")
    say(f"new data   {size_text(found.bytes_added)}")
    return Exit.DONE


def _readable(table: str, storage: list[str] | None) -> LanceDataset:
    """Open the newest version that is whole."""
    try:
        return opened(table, storage)
    except CorruptFileError:
        whole = newest_sound(open_table(table, storage_options(storage)))
        if whole is None:
            raise
        return opened(table, storage, str(whole.version))


def _words(change: VersionChange) -> str:
    """Return what a commit changed, in one line."""
    if change.fault:
        return f"damaged: {change.fault}"
    found = change.difference
    parts = [f'"{change.message}"'] if change.message else []
    parts += [f"tag {tag}" for tag in change.tags]
    if found is not None:
        if found.rows_added or found.rows_removed or found.rows_changed:
            parts.append(f"rows {_rows(found)}")
        if columns := _changes(found.columns_added, found.columns_removed, found.columns_changed):
            parts.append(f"columns {_few(columns)}")
        if indices := _changes(found.indices_added, found.indices_removed):
            parts.append(f"indices {_few(indices)}")
        if found.config_changed:
            parts.append(f"settings {_few(list(found.config_changed))}")
        parts.append(f"fragments +{found.fragments_added:,} -{found.fragments_removed:,}")
    return ", ".join(parts)


def _rows(found: Difference) -> str:
    return f"+{found.rows_added:,} -{found.rows_removed:,} ~{found.rows_changed:,}"


def _changes(
    added: tuple[str, ...], removed: tuple[str, ...], changed: tuple[str, ...] = ()
) -> list[str]:
    return [
        *(f"+{one}" for one in added),
        *(f"-{one}" for one in removed),
        *(f"~{one}" for one in changed),
    ]


def _few(values: list[str]) -> str:
    return " ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")
