"""Images as places, files and pixels."""

from __future__ import annotations

import importlib
import io
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.arrow import (
    EncodedImageType,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)
from pilum.errors import CorruptFileError, InvalidInputError, MissingDependencyError

PIXELS = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)


def _tensors() -> pa.Array:
    return ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(PIXELS))


def test_places_are_read_as_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.bin" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 3)
    places = ImageURIArray.from_uris([paths[0], paths[1].as_uri()])
    assert places.type == ImageURIType()
    files = places.read_uris()
    assert files.type == EncodedImageType()
    assert files.to_pylist() == [b"\0\0\0", b"\1\1\1"]
    assert places.read_uris(pa.large_binary()).storage.type == pa.large_binary()
    with pytest.raises(FileNotFoundError):
        ImageURIArray.from_uris(["/no/such/file"]).read_uris()


def test_pixels_become_files_and_pixels_again() -> None:
    tensors = _tensors()
    assert tensors.type == FixedShapeImageTensorType(pa.uint8(), (3, 4, 3))
    assert np.array_equal(tensors.to_numpy(), PIXELS)

    def encoder(images: np.ndarray) -> pa.Array:
        return pa.array([image.tobytes() for image in images])

    def decoder(files: pa.Array) -> np.ndarray:
        rows = [np.frombuffer(file, np.uint8).reshape(3, 4, 3) for file in files.to_pylist()]
        return np.stack(rows)

    files = tensors.to_encoded(encoder)
    assert files.type == EncodedImageType()
    assert np.array_equal(files.to_tensor(decoder).to_numpy(), PIXELS)


def test_pillow_encodes_and_decodes() -> None:
    if find_spec("PIL") is None:
        with pytest.raises(MissingDependencyError, match="pip install pillow"):
            _tensors().to_encoded()
        return
    image: Any = importlib.import_module("PIL.Image")
    files = _tensors().to_encoded()
    assert image.open(io.BytesIO(files[0].as_py())).size == (4, 3)
    assert np.array_equal(files.to_tensor().to_numpy(), PIXELS)


def test_arrays_are_made_of_what_fits() -> None:
    assert ImageArray.from_array(["a", "b"]).type == ImageURIType()
    assert ImageArray.from_array(pa.array(["a"], pa.large_string())).type == ImageURIType(
        pa.large_string()
    )
    files = ImageArray.from_array(pa.array([b"a" * 100]))
    assert ImageArray.from_array(files) is files
    assert repr(files).splitlines()[0] == "<pilum.arrow.EncodedImageArray>"
    assert len(repr(files)) < 100
    with pytest.raises(InvalidInputError, match="no images"):
        ImageArray.from_array(pa.array([1]))
    with pytest.raises(InvalidInputError, match="several"):
        ImageURIArray.from_uris("one")


@pytest.mark.parametrize("kind", [ImageURIType(), EncodedImageType(pa.large_binary())])
def test_types_are_checked_and_pickled(kind: pa.ExtensionType) -> None:
    assert pickle.loads(pickle.dumps(kind)) == kind
    with pytest.raises(InvalidInputError, match="storage_type"):
        type(kind)(pa.int8())
    with pytest.raises(InvalidInputError, match="dimension"):
        FixedShapeImageTensorType(pa.uint8(), ())


def test_tables_store_images(tmp_path: Path) -> None:
    table = pa.table({"place": ImageArray.from_array(["a", "b"]), "pixels": _tensors()})
    found = pilum.write_dataset(table, tmp_path / "t").to_table()
    assert found.schema.equals(table.schema)
    assert np.array_equal(found["pixels"].chunk(0).to_numpy(), PIXELS)


@pytest.mark.parametrize(
    ("name", "parameters", "values"),
    [
        ("lance.bfloat16", "", pa.array([1, 2, 3], pa.int8())),
        (
            "lance.arrow.fixed_shape_image_tensor",
            '{"shape": [1000]}',
            pa.array([[1, 2]], pa.list_(pa.uint8(), 2)),
        ),
        (
            "lance.arrow.fixed_shape_image_tensor",
            "{}",
            pa.array([[1, 2]], pa.list_(pa.uint8(), 2)),
        ),
    ],
)
def test_values_of_another_size_than_the_type_says_are_refused(
    tmp_path: Path, name: str, parameters: str, values: pa.Array
) -> None:
    stored = {"ARROW:extension:name": name, "ARROW:extension:metadata": parameters}
    field = pa.field("x", values.type, metadata=stored)
    with pytest.raises(CorruptFileError):
        pilum.write_dataset(
            pa.table([values], schema=pa.schema([field])), tmp_path / "t"
        ).to_table()
