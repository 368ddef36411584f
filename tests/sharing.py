"""How tests are shared among the processes of one run.

The tests of a file stay in one process, so that its fixtures are made once; those of Spark stay in
one as well. The files come in the order of the tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

__all__ = ["FileScheduling", "longest_first"]


class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Gives a process one file or group of tests after the other."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by numbers of tests

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group


def longest_first(items: list[pytest.Item]) -> None:
    """Begin with Spark and with slow files: a process that is left with one ends late."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def is_late(item: pytest.Item) -> tuple[bool, bool]:
        return item.get_closest_marker("xdist_group") is None, item.path not in slow

    items.sort(key=is_late)
