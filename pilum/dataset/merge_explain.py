"""Merge plans as text: what happens to the rows, and the steps, the last one first.

MergeInsert: on=[a], when_matched=UpdateAll, when_not_matched=InsertAll, …
  Write: rows in the form of the table, and marks on those that moved or go
    Join: a of the source with a of the table, 64 MiB of keys at a time
      Scan: memory://t, version 2, columns a, 1 of 1 fragments, 3 rows
      Source: a, b
"""

from __future__ import annotations

import pyarrow as pa

from pilum.dataset.merge_plan import MergePlan
from pilum.table.changes.join import BLOCK_BYTES
from pilum.table.changes.merge_clauses import Matched
from pilum.table.read.snapshot import Snapshot

__all__ = ["explained_merge"]

_MATCHED = {
    Matched.LEFT: "DoNothing",
    Matched.UPDATED: "UpdateAll",
    Matched.DELETED: "Delete",
    Matched.REFUSED: "Fail",
}


def explained_merge(snapshot: Snapshot, plan: MergePlan, source: pa.Schema, verbose: bool) -> str:
    """Return the steps of a merge as text.

    Args:
        snapshot: The version of the table.
        plan: The merge.
        source: Schema of the source.
        verbose: Whether to list the data files of the table.
    """
    keys = ", ".join(plan.on)
    manifest = snapshot.manifest
    num_fragments = len(manifest.fragments)
    lines = [
        (
            f"MergeInsert: on=[{keys}], when_matched={_matched(plan)}, "
            f"when_not_matched={_not_matched(plan)}, when_not_matched_by_source={_others(plan)}"
        ),
        "  Write: new rows in files of their own, and marks on rows that moved or go",
        f"    Join: {keys} of source and table, {BLOCK_BYTES >> 20} MiB of keys at a time",
        (
            f"      Scan: {snapshot.store.uri}, version {manifest.version}, columns {keys}, "
            f"{num_fragments} of {num_fragments} fragments, {snapshot.num_rows} rows"
        ),
        f"      Source: {', '.join(source.names)}",
    ]
    if verbose:
        files = (file.path for fragment in manifest.fragments for file in fragment.files)
        lines[4:4] = [f"        File: {path}" for path in files]
    return "\n".join(lines)


def _matched(plan: MergePlan) -> str:
    name = _MATCHED[plan.matched]
    if plan.matched is Matched.UPDATED:
        name = "Update" if plan.values is not None else "UpdateAll"
        if plan.values is not None:
            name += f"({', '.join(plan.values)})"
        if plan.condition is not None:
            name = f"UpdateIf({plan.condition})"
    if plan.deletes is None:
        return name
    return f"DeleteIf({plan.deletes}), {name}"


def _not_matched(plan: MergePlan) -> str:
    if not plan.inserts:
        return "DoNothing"
    where = plan.inserts_where
    return "InsertAll" if where is None else f"InsertIf({where})"


def _others(plan: MergePlan) -> str:
    if not plan.deletes_others:
        return "Keep"
    return "Delete" if plan.others is None else f"DeleteIf({plan.others})"
