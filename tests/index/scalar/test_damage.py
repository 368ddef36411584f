"""Damaged files of scalar indices: an error of this library, or an answer."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fuzz.mutate import mutate
from index.scalar.folders import Folders

from pilum.errors import PilumError
from pilum.format.version import FileVersion
from pilum.index.base import Part
from pilum.index.files import IndexFolderWriter
from pilum.index.queries import Between, HasAll, HasAny, IsIn, IsNull, Query, StartsWith
from pilum.index.registry import index_type
from pilum.storage.local import LocalStore

_NUMBERS = pa.array([None if row % 11 == 0 else row * 7 % 60 for row in range(300)], pa.int32())
_TEXTS = pa.array([None if row % 13 == 0 else f"text {row % 50}" for row in range(300)])
_LISTS = pa.array([None if row % 9 == 0 else [row % 5, row % 7, None] for row in range(300)])
_RANGES: list[Query] = [IsNull(), Between(pa.scalar(5, pa.int32()), pa.scalar(50, pa.int32()))]
_CASES: list[tuple[str, pa.Array, dict[str, Any], list[Query]]] = [
    ("BTREE", _NUMBERS, {"zone_size": 16}, [*_RANGES, IsIn(pa.array([7, 14, 99], pa.int32()))]),
    ("BTREE", _TEXTS, {"zone_size": 16}, [StartsWith("text 1"), IsIn(pa.array(["text 7"]))]),
    ("BITMAP", _NUMBERS, {}, [*_RANGES, IsIn(pa.array([7, 14, 99], pa.int32()))]),
    ("LABEL_LIST", _LISTS, {}, [IsNull(), HasAny(pa.array([1, 3])), HasAll(pa.array([1, 3]))]),
]


@pytest.mark.seeds(25)
@pytest.mark.parametrize("case", range(len(_CASES)))
@pytest.mark.parametrize("version", [FileVersion.V2_0, FileVersion.V2_1])
def test_damage(tmp_path: Path, case: int, version: FileVersion, seed: int) -> None:
    """Mutated bytes of any file of the index."""
    source = random.Random(f"{seed} {case} {version}")
    name, column, parameters, queries = _CASES[case]
    folders, kind = Folders(str(tmp_path), version), index_type(name)
    folders.built(kind, column, **parameters)
    path = source.choice(sorted(tmp_path.rglob("*.lance")))
    path.write_bytes(mutate(path.read_bytes(), source))
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/0", version).written()
    with suppress(PilumError):
        index = kind.open(folder, b"", kind.index_version(has_stable_row_ids=False))
        assert index.statistics()
        for query in queries:
            answer = index.search(query)
            if answer is not None:
                for rows in (answer.rows.listed, answer.nulls.listed):
                    assert rows.dtype == np.uint64
                    assert (rows[:-1] < rows[1:]).all()
        index.prewarm()
        kind.merge([Part(index)], None, folders.new())
