"""Compaction of a table that a stream appends to: the small files at its end become larger ones.

    rows of the fragments      900  400  100 100 100 100        the newest at the right
    joined                     900  800

A fragment is joined with the newer ones if it has no more rows than all of them together. So the
number of small fragments grows with the logarithm of the rows, and so does the number of times that
a row is written again. Fragments that are large enough stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pilum.dataset.lance_dataset import LanceDataset
from pilum.distributed.tasks import stored_bytes
from pilum.table.model.fragment import Fragment, FragmentId

__all__ = ["compact_recent"]

_LARGE_BYTES = 128 << 20
_LOG = logging.getLogger(__name__)


def compact_recent(uri: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Join the newest small fragments of a table in this process, with one commit.

    Errors are logged, because the caller's own commit is done, and the next call tries again.
    """
    try:
        dataset = LanceDataset(uri, storage_options=dict(storage_options or {}))
        fragments = dataset.snapshot.manifest.fragments
        recent = recent_small(fragments)
        if len(recent) > 1:
            others = [int(one.id) for one in fragments if one.id not in recent]
            dataset.optimize.compact_files(excluded_fragment_ids=others)
    except Exception:
        _LOG.warning("compacting the newest files of %s failed", uri, exc_info=True)


def recent_small(fragments: Iterable[Fragment]) -> frozenset[FragmentId]:
    """Return the newest fragments that are worth joining."""
    found: set[FragmentId] = set()
    num_rows = 0
    for fragment in reversed([*fragments]):
        joins = not found or fragment.num_rows <= num_rows
        if not joins or stored_bytes([fragment]) >= _LARGE_BYTES:
            break
        found.add(fragment.id)
        num_rows += fragment.num_rows
    return frozenset(found)
