"""Scan plans as text: the steps that rows go through, the last one first.

Projection: twice
  Sort: a, limit 3
    Scan: memory://t, version 2, columns a, filter (a > 1), 2 of 2 fragments, 5 rows
"""

from __future__ import annotations

from collections.abc import Iterator

from pilum.dataset.options import ScanRequest
from pilum.table.read.ordering import ColumnOrdering
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot

__all__ = ["explained_scan"]


def explained_scan(
    snapshot: Snapshot, options: ScanOptions, request: ScanRequest, verbose: bool
) -> str:
    """Return the steps of a scan as text.

    Args:
        snapshot: The version of the table.
        options: Options that say what is read.
        request: The request that says what is computed from it.
        verbose: Whether to list the data files.
    """
    steps = list(_steps(snapshot, options, request))
    if verbose:
        wanted = options.fragment_ids
        steps += [
            f"File: {file.path} of fragment {fragment.id}, {fragment.num_rows} rows"
            for fragment in snapshot.manifest.fragments
            if wanted is None or fragment.id in wanted
            for file in fragment.files
        ]
    depths = [min(depth, _depth(steps)) for depth in range(len(steps))]
    return "\n".join("  " * depth + step for depth, step in zip(depths, steps, strict=True))


def _depth(steps: list[str]) -> int:
    """Return the indentation of the files of a scan."""
    return next(depth for depth, step in enumerate(steps) if step.startswith("Scan")) + 1


def _steps(snapshot: Snapshot, options: ScanOptions, request: ScanRequest) -> Iterator[str]:
    if request.projection:
        yield f"Projection: {', '.join(name for name, _ in request.projection.items)}"
    order = request.shape.order_by
    if order:
        yield f"Sort: {', '.join(map(_key, order))}{_window(request.options)}"
    manifest = snapshot.manifest
    wanted = options.fragment_ids
    fragments = [one for one in manifest.fragments if wanted is None or one.id in wanted]
    names = ", ".join(scan_schema(snapshot, options).names)
    filter = "" if options.filter is None else f", filter on {', '.join(options.filter.columns)}"
    yield (
        f"Scan: {snapshot.store.uri}, version {manifest.version}, columns {names}{filter}"
        f"{'' if order else _window(options)}, {len(fragments)} of {len(manifest.fragments)} "
        f"fragments, {sum(one.num_rows for one in fragments)} rows"
    )


def _key(key: ColumnOrdering) -> str:
    direction = "" if key.ascending else " descending"
    return f"{key.column_name}{direction}{' nulls first' if key.nulls_first else ''}"


def _window(options: ScanOptions) -> str:
    limit = "" if options.limit is None else f", limit {options.limit}"
    return limit + (f", offset {options.offset}" if options.offset else "")
