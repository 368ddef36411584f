"""Prefetch of fragments: those of a remote store are opened ahead, several at once.

On a local disk, a file is opened when the previous one has been read: there is little latency, and
threads cost more than they save. With a store that answers after 30 ms, opening a thousand
fragments one after the other would take half a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial

from pilum.format.schema import Field
from pilum.parallel import submit_waiting
from pilum.table.read.fragment_files import FragmentReader

__all__ = ["opened_ahead"]

_MOST_AHEAD = 31


def opened_ahead(
    fragments: Iterable[FragmentReader], fields: Sequence[Field]
) -> Iterator[FragmentReader]:
    """Yield the same fragments; of a remote store, the next ones are opened in the background.

    One fragment is opened at first, then twice as many each time, because a scan may end soon.

    Args:
        fragments: Fragments in scan order.
        fields: Fields that will be read.
    """
    running: deque[tuple[FragmentReader, Future[None]]] = deque()
    ahead = 0
    try:
        for fragment in fragments:
            if not fragment.store.is_remote:
                yield fragment
                continue
            running.append((fragment, submit_waiting(partial(_open, fragment, fields))))
            if len(running) > ahead:
                yield _opened(*running.popleft())
                ahead = min(2 * ahead + 1, _MOST_AHEAD)
        while running:
            yield _opened(*running.popleft())
    finally:
        for _, future in running:
            future.cancel()


def _open(fragment: FragmentReader, fields: Sequence[Field]) -> None:
    fragment.fields(fields)
    fragment.deletions  # noqa: B018 - read once, and kept


def _opened(fragment: FragmentReader, opening: Future[None]) -> FragmentReader:
    wait([opening])  # an error is raised again when the fragment is read
    return fragment
