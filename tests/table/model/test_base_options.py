"""Options for single base paths, by id and by location."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.model.base_options import open_base, open_with_bases, with_base_params

FIRST, SECOND = {"sync": "false"}, {"mmap": "false"}


def options_of(store: Store, path: Path, base_id: int = 1) -> dict[str, str]:
    return open_base(store, base_id, str(path)).options


def test_the_closest_options_count(tmp_path: Path) -> None:
    base = tmp_path / "base"
    given = {"sync": "false", "base_1.sync": "true", "base_2.mmap": "false"}
    store = open_with_bases(str(tmp_path), given)
    assert store.options == FIRST
    assert options_of(store, base, 1) == {}
    assert options_of(store, base, 2) == FIRST | SECOND
    assert options_of(store, base, 3) == FIRST
    options = with_base_params(given, {f"{base}/": SECOND})
    assert options is not None
    store = open_with_bases(str(tmp_path), options)
    assert store.options == FIRST
    assert options_of(store, base, 1) == SECOND
    assert options_of(store, tmp_path / "other", 1) == {}


@pytest.mark.parametrize("params", [1, {"a": 1}, [["a"]]])
def test_other_forms_are_refused(params: Any) -> None:
    with pytest.raises(InvalidInputError, match="base_store_params"):
        with_base_params(None, params)


def test_a_dataset_keeps_them(tmp_path: Path) -> None:
    path, base = tmp_path / "t", tmp_path / "base"
    params = {str(base): FIRST}
    bases = [pilum.DatasetBasePath(str(base), name="b")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no option is unknown
        written = pilum.write_dataset(
            {"a": [1]}, path, initial_bases=bases, target_bases=["b"], base_store_params=params
        )
        opened = pilum.dataset(path, base_store_params=params)
        found = [written, opened, pickle.loads(pickle.dumps(opened)), opened.create_branch("x")]
        for dataset in found:
            assert options_of(dataset.snapshot.store, base) == FIRST
            assert dataset.snapshot.store.options == {}
            assert dataset.to_table().num_rows == 1
        with opened.new_file_session().open_writer("one.lance") as writer:
            writer.write_batch(opened.to_table())
    assert options_of(pilum.dataset(path).snapshot.store, base) == {}
