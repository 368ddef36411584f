"""JSON in the metadata of files: wrong fields are errors that name them."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.format.version import FileVersion
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.vector.flat import FlatQuantizer
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.metrics import Metric
from pilum.index.vector.opening import open_vector_index
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.quantizer import Quantizer
from pilum.index.vector.scalar_codes import ScalarQuantizer
from pilum.index.vector.segment_files import SegmentWriter
from pilum.index.vector.stored_parameters import StoredParameters, entry, texts
from pilum.storage.local import LocalStore

DIMENSION = 8
QUANTIZERS: dict[str, Quantizer] = {
    "IVF_FLAT": FlatQuantizer(np.dtype(np.float32), DIMENSION, Metric.L2),
    "IVF_SQ": ScalarQuantizer(DIMENSION, Metric.L2, -1.0, 1.0),
    "IVF_PQ": ProductQuantizer(np.zeros((4, 256, 2), np.float32), Metric.L2),
}
WRONG: list[Any] = [
    *(None, True, "8", "", [], [8], {}, {"start": 1}, -1, 0.5, 10**400, 1e308 * 10),
    *(0, 7, 9, 1 << 31, (1 << 64) + 8),
]
VALID = {  # values among the wrong ones that mean something in a field
    "codebook_tensor": [None, True, "8", "", [], [8], {}, {"start": 1}, *WRONG[8:]],
    "codebook_position": [0],
    "transposed": [True],
    "start": [-1, 0.5, 0],
    "end": [-1, 0.5, 0, 7, 9, 1 << 31, (1 << 64) + 8],
}


def write(path: Path, name: str) -> IndexFolder:
    """Write a segment of few rows."""
    quantizer = QUANTIZERS[name]
    model = IvfModel(np.eye(DIMENSION, dtype=np.float32)[:2], Metric.L2, 0.0)
    vectors = np.random.default_rng(1).normal(size=(6, DIMENSION)).astype(np.float32)
    writer = IndexFolderWriter(LocalStore(str(path)), "x", FileVersion.V2_1)
    with SegmentWriter(writer, name, model, quantizer) as segment:
        for number in range(2):
            partitions = np.full(3, number, np.uint32)
            part = vectors[3 * number :][:3]
            columns = quantizer.encode(part, partitions, model.centroids)
            segment.write(np.arange(3, dtype=np.uint64) + 3 * number, columns)
    return writer.written()


def rewrite(folder: IndexFolder, name: str, metadata: dict[str, str]) -> None:
    """Write a file of a segment again, with other metadata."""
    old = folder.open(name)
    writer = IndexFolderWriter(folder.store, "y", FileVersion.V2_1)
    with writer.file(name, old.schema.remove_metadata()) as file:
        file.write(old.read())
        for number in (1, 2, 3):
            try:
                file.add_global_buffer(old.global_buffer(number))
            except CorruptFileError:
                break
        file.add_metadata(metadata)


def opened_with(path: Path, folder: IndexFolder, name: str, metadata: dict[str, str]) -> None:
    """Open a segment of which one file has other metadata."""
    shutil.rmtree(path / "y", ignore_errors=True)
    shutil.copytree(path / "x", path / "y")
    rewrite(folder, name, metadata)
    open_vector_index(IndexFolder(folder.store, "y"))


@pytest.mark.parametrize("name", list(QUANTIZERS))
def test_every_wrong_field_is_an_error(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, name)
    metadata = dict(folder.open("auxiliary.idx").metadata)
    [text] = json.loads(metadata["storage_metadata"])
    fields = json.loads(text)
    opened_with(tmp_path, folder, "auxiliary.idx", metadata)  # unchanged
    places = [(fields, key) for key in fields]
    if "bounds" in fields:
        places += [(fields["bounds"], key) for key in fields["bounds"]]
    for owner, key in places:
        right = owner[key]
        for wrong in WRONG:
            if wrong == right or any(
                wrong is one or (wrong == one and type(wrong) is type(one))
                for one in VALID.get(key, [])
            ):
                continue
            owner[key] = wrong
            changed = metadata | {"storage_metadata": json.dumps([json.dumps(fields)])}
            with pytest.raises(CorruptFileError, match=r"auxiliary\.idx"):
                opened_with(tmp_path, folder, "auxiliary.idx", changed)
        owner[key] = right


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
def test_every_wrong_entry_is_an_error(tmp_path: Path, file: str) -> None:
    folder = write(tmp_path, "IVF_PQ")
    metadata = dict(folder.open(file).metadata)
    assert len(metadata) == 3
    for key in metadata:
        without = {one: text for one, text in metadata.items() if one != key}
        wrong = [metadata | {key: text} for text in ("", "x", "[", "{}", "[1]", "[]", "99", "[[")]
        for changed in (without, *wrong):
            with pytest.raises(CorruptFileError, match=file.replace(".", r"\.")):
                opened_with(tmp_path, folder, file, changed)


def test_values_are_returned_as_they_are() -> None:
    found = StoredParameters('{"a":3,"b":1.5,"c":true,"d":"x","e":[1,2],"f":{"g":4},"h":null}', "p")
    assert found.integer("a", 3, 3) == 3
    assert (found.number("a"), found.number("b")) == (3.0, 1.5)
    assert (found.flag("c", False), found.flag("z", True)) == (True, True)
    assert found.text("d") == "x"
    assert (found.numbers("e", 2), found.numbers("h", 2), found.numbers("z", 2)) == ([1, 2], [], [])
    assert found.parameters("f").integer("g", 0, 9) == 4
    assert found.get("h", 5) is None
    assert entry({"k": "v"}, "k", "p") == "v"
    assert texts('["a",""]', "p") == ["a", ""]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(value=json_values | st.integers(10**300, 10**400))
def test_any_value_is_right_or_an_error(value: Any) -> None:
    found = StoredParameters(json.dumps({"x": value}), "p")
    for read in (
        lambda: found.integer("x", -5, 5),
        lambda: found.number("x"),
        lambda: found.flag("x", False),
        lambda: found.text("x"),
        lambda: found.numbers("x", 255),
        lambda: found.parameters("x"),
    ):
        with suppress(CorruptFileError):  # nothing else is raised
            read()


@given(text=st.text() | st.sampled_from(["[" * 100_000, "1" * 5000, '"\\ud800"', "NaN"]))
def test_any_text_is_an_object_or_an_error(text: str) -> None:
    for read in (lambda: StoredParameters(text, "p"), lambda: texts(text, "p")):
        with suppress(CorruptFileError):  # nothing else is raised
            read()
