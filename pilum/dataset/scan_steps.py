"""The steps of a scan as text, the last one first.

Projection: twice
  Sort: a, limit 3
    Scan: memory://t, version 2, columns a, filter on a (on pages: a), 2 of 2 fragments, 5 rows
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pilum.dataset.scan import ColumnOrdering, Scan
from pilum.table.model.fragment import Fragment
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["explained", "key_text", "window_text"]


def explained(
    snapshot: Snapshot,
    options: ScanOptions,
    wanted: Scan,
    verbose: bool,
    analyzed: bool = False,
) -> str:
    """Return the steps of a scan that reads with `options` as text."""
    searches = list(_searches(snapshot, options, wanted, analyzed))
    steps = [*_steps(snapshot, options, wanted), *searches]
    if (verbose or analyzed) and not searches and wanted.search is None:
        steps += _zone_maps(snapshot, options)
    if verbose:
        steps += [
            f"File: {file.path} of fragment {fragment.id}, {fragment.num_rows} rows"
            for fragment in _fragments(snapshot, options)
            for file in fragment.files
        ]
    depths = [min(depth, _depth(steps)) for depth in range(len(steps))]
    return "\n".join("  " * depth + step for depth, step in zip(depths, steps, strict=True))


def _depth(steps: list[str]) -> int:
    """Return the indentation of the files of a scan."""
    return next(depth for depth, step in enumerate(steps) if step.startswith("Scan")) + 1


def _steps(snapshot: Snapshot, options: ScanOptions, wanted: Scan) -> Iterator[str]:
    if wanted.projection:
        yield f"Projection: {', '.join(name for name, _ in wanted.projection.items)}"
    order = wanted.order_by
    if order:
        yield f"Sort: {', '.join(map(key_text, order))}{window_text(wanted.options)}"
    if wanted.search is not None:
        yield from wanted.search.steps(snapshot, options, wanted.indices)
    manifest, fragments = snapshot.manifest, _fragments(snapshot, options)
    names = ", ".join(wanted.read_schema(snapshot, options).names)
    filter = "" if options.filter is None else _filter(snapshot, options.filter)
    yield (
        f"Scan: {snapshot.store.uri}, version {manifest.version}, columns {names}{filter}"
        f"{'' if order else window_text(options)}, {len(fragments)} of {len(manifest.fragments)} "
        f"fragments, {sum(one.num_rows for one in fragments)} rows"
    )


def _filter(snapshot: Snapshot, filter: BoundFilter) -> str:
    """Return the columns of a filter, and which conditions are tested on pages or by Arrow."""
    from pilum.table.read.masks import Masks

    masks = Masks.of(snapshot, filter, ())
    rest = filter if masks is None else masks.rest
    parts = [
        f"{place}: {', '.join(names)}"
        for place, names in (
            ("on pages", masks.names if masks else ()),
            ("by Arrow", rest.columns if rest else ()),
        )
        if names
    ]
    return f", filter on {', '.join(filter.columns)} ({'; '.join(parts)})"


def _zone_maps(snapshot: Snapshot, options: ScanOptions) -> Iterator[str]:
    """Yield the rows that zone maps decide, if there are any; this opens the files."""
    if options.filter is None:
        return
    from pilum.table.read.matching import runs_to_read

    num_rows = num_sure = num_tested = 0
    for fragment in _fragments(snapshot, options):
        reader, rows = snapshot.reader(fragment), fragment.physical_rows
        num_rows += rows
        for run, left in runs_to_read(reader, snapshot.described, options.filter, 0, rows):
            num_sure += run.num_rows if left is None else 0
            num_tested += 0 if left is None else run.num_rows
    if num_tested < num_rows:
        skipped = num_rows - num_sure - num_tested
        yield f"ZoneMaps: {skipped} rows skipped, {num_sure} match, {num_tested} tested"


def _searches(
    snapshot: Snapshot, options: ScanOptions, wanted: Scan, analyzed: bool
) -> Iterator[str]:
    """Yield the step that searches indices, if there is one."""
    if options.filter is None or wanted.with_deleted or not snapshot.manifest.index_section:
        return
    if wanted.search is not None and not wanted.search.is_prefilter:
        return
    from pilum.table.indices.describing import described_coverage, described_plan, described_search
    from pilum.table.indices.selecting import plan_of

    plan = plan_of(snapshot, options, wanted.indices) if wanted.indices.is_allowed else None
    if plan is not None:
        counts = described_search(snapshot, plan) if analyzed else ""
        yield f"ScalarIndexQuery: query={described_plan(plan)}, {described_coverage(plan)}{counts}"


def _fragments(snapshot: Snapshot, options: ScanOptions) -> list[Fragment]:
    wanted = options.fragment_ids
    return [one for one in snapshot.manifest.fragments if wanted is None or one.id in wanted]


def key_text(key: ColumnOrdering) -> str:
    """Return an ordering as text."""
    direction = "" if key.ascending else " descending"
    return f"{key.column_name}{direction}{' nulls first' if key.nulls_first else ''}"


def window_text(options: ScanOptions) -> str:
    """Return the limit and the offset of a scan as text; empty if there are none."""
    limit = "" if options.limit is None else f", limit {options.limit}"
    return limit + (f", offset {options.offset}" if options.offset else "")
