"""Fragments of a store that is far away are opened before they are read, several at once.

On a local disk the next file is opened when the last one is read: waiting is short, and threads
cost more. At a store that answers after 30 ms, a thousand fragments one after the other would be
half a minute of nothing.
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
    """The same fragments; of a store that is far away, some of the next ones are being opened.

    The first one alone, then twice as many each time: a scan may end soon.

    Args:
        fragments: In the order of the scan.
        fields: What will be read of them.
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
    wait([opening])  # what is wrong with it is raised again where it is read
    return fragment
