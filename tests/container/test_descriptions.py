"""Parsed descriptions: shared while there is room, and never mixed up."""

from __future__ import annotations

from collections import Counter

import pytest

from pilum.container.descriptions import Descriptions, FileCaches
from pilum.errors import CorruptFileError


class Parser:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[object, ...]] = Counter()

    def __call__(self, data: bytes, *context: object) -> list[object]:
        self.calls[(data, *context)] += 1
        return [data, *context]


def test_equal_descriptions_are_parsed_once() -> None:
    descriptions, parse = Descriptions(), Parser()
    first = descriptions.parsed(parse, b"a", 1)
    assert descriptions.parsed(parse, bytes([97]), 1) is first
    assert parse.calls == {(b"a", 1): 1}


def test_functions_and_contexts_are_distinguished() -> None:
    descriptions, parse, other = Descriptions(), Parser(), Parser()
    wanted = [(parse, ()), (parse, (1,)), (parse, (2,)), (other, (1,))]
    found = [descriptions.parsed(function, b"a", *context) for function, context in wanted]
    assert found == [[b"a", *context] for _, context in wanted]
    assert found[1] is not found[3]


def test_the_oldest_are_dropped_where_there_is_no_room() -> None:
    descriptions, parse = Descriptions(limit_bytes=4000), Parser()
    for data in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8"):
        descriptions.parsed(parse, data)
    descriptions.parsed(parse, b"8")
    descriptions.parsed(parse, b"0")
    assert (parse.calls[(b"8",)], parse.calls[(b"0",)]) == (1, 2)


def test_one_that_is_larger_than_the_cache_is_parsed_each_time() -> None:
    descriptions, parse = Descriptions(limit_bytes=100), Parser()
    assert [descriptions.parsed(parse, b"a") for _ in range(2)] == [[b"a"], [b"a"]]
    assert parse.calls == {(b"a",): 2}


def test_failures_are_not_kept() -> None:
    def fail(data: bytes) -> None:
        raise CorruptFileError(data.decode())

    descriptions = Descriptions()
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="a"):
            descriptions.parsed(fail, b"a")


def test_a_child_process_starts_without_any() -> None:
    descriptions, parse = Descriptions(), Parser()
    descriptions.parsed(parse, b"a")
    descriptions.renew()
    descriptions.parsed(parse, b"a")
    assert parse.calls == {(b"a",): 2}


def test_private_caches_may_share_descriptions() -> None:
    shared = Descriptions()
    one, other = FileCaches.private("one", shared), FileCaches.private("other", shared)
    assert one.descriptions is other.descriptions is shared
    assert one.pages.cache is not other.pages.cache
    assert FileCaches.private("one").descriptions is not shared
