"""What a session remembers of comparisons between files and their manifest."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.format.fields import FieldId
from pilum.table.read import session as sessions
from pilum.table.read.session import Agreement, Session

FIELDS = FieldId(4), FieldId(7)


def test_files_with_the_same_fields_share_a_mapping() -> None:
    known = Agreement()
    assert known.columns(FIELDS, (1, 0)) == {4: 1, 7: 0}
    assert known.columns(FIELDS, (1, 0)) is known.columns((FieldId(4), FieldId(7)), (1, 0))
    assert known.columns(FIELDS, (0, 1)) == {4: 0, 7: 1}
    assert known.columns(FIELDS, ()) == {4: -1, 7: -1}  # files before 2.0 have no columns


def test_results_belong_to_a_session_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MANY", 3)
    names = [f"c{number}" for number in range(5)]
    columns = {name: pa.array([{"x": number}]) for number, name in enumerate(names)}
    pilum.write_dataset({**columns, "plain": [1]}, tmp_path / "t")
    session, other = Session(), Session()
    dataset = pilum.dataset(tmp_path / "t", session=session)
    for name in names:
        assert dataset.to_table(columns=[name]).num_rows == 1
        assert 0 < len(session.agreement._agreed) <= 3
    assert not other.agreement._agreed
    assert pilum.dataset(tmp_path / "t", session=other).to_table(columns=["plain"]).num_rows == 1
    assert not other.agreement._agreed  # quicker to compare again
