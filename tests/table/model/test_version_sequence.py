"""Versions of rows: runs, bytes that are known, and damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.version_sequence import VersionSequence

VERSIONS = st.lists(st.integers(1, 3), max_size=30)


def sequence(versions: list[int]) -> VersionSequence:
    return VersionSequence.of(np.array(versions, dtype=np.uint64))


def test_bytes_of_one_version() -> None:
    data = bytes.fromhex("0a 08 0a 04 0a 02 10 05 10 01")
    assert VersionSequence.uniform(5, 1).to_bytes() == data
    assert VersionSequence.from_bytes(data, 5).values().tolist() == [1] * 5


def test_only_the_length_of_a_span_counts() -> None:
    # Row 2 of a range at version 7, then a bitmap with four ids at version 1.
    data = bytes.fromhex(
        "0a 0a 0a 06 0a 04 08 02 10 03 10 07 0a 0b 0a 07 1a 05 10 05 1a 01 1b 10 01"
    )
    assert VersionSequence.from_bytes(data, 5).values().tolist() == [7, 1, 1, 1, 1]


@given(st.lists(VERSIONS, max_size=3), st.data())
def test_sequences_and_their_parts(parts: list[list[int]], data: st.DataObject) -> None:
    versions = [one for part in parts for one in part]
    whole = VersionSequence.concatenate(map(sequence, parts))
    assert whole.values().tolist() == versions
    assert len(whole) == len(versions)
    stored = VersionSequence.from_bytes(whole.to_bytes(), len(versions))
    assert stored.values().tolist() == versions
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(versions))])))
    assert whole.slice(start, stop).values().tolist() == versions[start:stop]
    count = len(versions)
    chosen = data.draw(st.lists(st.integers(0, count - 1), unique=True) if count else st.just([]))
    offsets = np.array(chosen, dtype=np.int64)
    assert whole.at(offsets).tolist() == [versions[one] for one in chosen]
    left = whole.without(DeletionVector.of(offsets))
    assert left.values().tolist() == [v for at, v in enumerate(versions) if at not in chosen]
    changed = whole.replaced(offsets, 9).values().tolist()
    assert changed == [9 if at in chosen else v for at, v in enumerate(versions)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0a", "versions of rows"),
        ("0a 02 10 01", "unknown kind"),
        ("0a 08 0a 04 0a 02 10 0b 10 01", "more than 10 rows"),
        ("0a 11 0a 0d 0a 0b 10 ff ff ff ff ff ff ff ff ff 01 10 01", "more than 10 rows"),
    ],
)
def test_damage(text: str, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        VersionSequence.from_bytes(bytes.fromhex(text), 10)


def test_no_fragment_has_as_many_rows() -> None:
    data = bytes.fromhex("0a 11 0a 0d 0a 0b 10 ff ff ff ff ff ff ff ff ff 01 10 01")
    with pytest.raises(CorruptFileError, match="versions of more"):
        VersionSequence.from_bytes(data, 2**64 - 1)
