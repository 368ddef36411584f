"""Arrays of images, from their places to their pixels and back.

ImageURIArray ── read_uris ──▶ EncodedImageArray ── to_tensor ──▶ FixedShapeImageTensorArray
                                                 ◀── to_encoded ──
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from pilum.arrow.registration import register
from pilum.arrow.types import EncodedImageType, FixedShapeImageTensorType, ImageURIType
from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = [
    "ARRAYS",
    "SCALARS",
    "EncodedImageArray",
    "EncodedImageScalar",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "pillow",
]

_SHOWN_BYTES = 30


class ImageScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One image of an array."""

    def as_py(self, **options: Any) -> Any:
        """Return its value in storage: a string, bytes or a list; None for null."""
        return None if self.value is None else self.value.as_py(**options)


class ImageURIScalar(ImageScalar):
    """The place of an image."""


class EncodedImageScalar(ImageScalar):
    """The file of an image."""


class FixedShapeImageTensorScalar(ImageScalar):
    """The pixels of an image."""


class ImageArray(pa.ExtensionArray):  # type: ignore[misc]
    """An array of images; see the classes derived from it."""

    def __repr__(self) -> str:
        values = (shown(value) for value in self.storage[:10].to_pylist())
        more = ["..."] if len(self) > 10 else []
        return f"<pilum.arrow.{type(self).__name__}>\n[{', '.join([*values, *more])}]"

    @classmethod
    def from_array(cls, images: Any) -> ImageArray:
        """Return images as the array that suits their form.

        Args:
            images: Strings are places, binary values are files, and arrays of tensors are pixels.
                Any other iterable has places.

        Raises:
            InvalidInputError: If it is none of these.
        """
        if isinstance(images, ImageArray):
            return images
        if isinstance(images, pa.StringArray | pa.LargeStringArray):
            return _of(ImageURIType(images.type), images)
        if isinstance(images, pa.BinaryArray | pa.LargeBinaryArray):
            return _of(EncodedImageType(images.type), images)
        if isinstance(images, pa.FixedShapeTensorArray):
            kind = FixedShapeImageTensorType(images.type.value_type, images.type.shape)
            return _of(kind, images.storage)
        if isinstance(images, Iterable) and not isinstance(images, pa.Array | str | bytes):
            return _of(ImageURIType(), pa.array(images, pa.string()))
        raise InvalidInputError(f"no images: {type(images).__name__}")


class ImageURIArray(ImageArray):
    """An array of places of images: paths, or URIs of files, object stores and web servers."""

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | os.PathLike[str]]) -> ImageArray:
        """Return an array of these places."""
        if isinstance(uris, pa.StringArray | pa.LargeStringArray):
            return _of(ImageURIType(uris.type), uris)
        if isinstance(uris, str | bytes) or not isinstance(uris, Iterable):
            raise InvalidInputError(f"uris: expected several, found {uris!r:.80}")
        return _of(ImageURIType(), pa.array(map(os.fspath, uris), pa.string()))

    def read_uris(self, storage_type: pa.DataType = pa.binary()) -> ImageArray:  # noqa: B008
        """Read the images as they are stored.

        Args:
            storage_type: `pa.binary()`, or `pa.large_binary()` for more than 2 GiB.

        Raises:
            OSError: If an image cannot be read.
        """
        files = [None if uri is None else _read(uri) for uri in self.storage.to_pylist()]
        return _of(EncodedImageType(storage_type), pa.array(files, storage_type))


class EncodedImageArray(ImageArray):
    """An array of files of images. Their format is not stored; the files themselves show it."""

    def to_tensor(
        self, decoder: Callable[[pa.Array], NDArray[Any] | pa.FixedShapeTensorArray] | None = None
    ) -> ImageArray:
        """Return the pixels of the images, which must have one shape.

        Args:
            decoder: A function from an array of files to an array of shape (n, ...) or of tensors;
                None for Pillow.

        Raises:
            MissingDependencyError: If Pillow is needed and not installed.
        """
        found = (decoder or _decoded)(self.storage)
        if isinstance(found, pa.FixedShapeTensorArray):
            return ImageArray.from_array(found)
        return ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(found))


class FixedShapeImageTensorArray(ImageArray):
    """An array of pixels: images of one shape."""

    def to_numpy(self) -> NDArray[Any]:
        """Return the pixels of shape (n, ...), without a copy if there are no nulls."""
        kind = pa.fixed_shape_tensor(self.type.arrow_type, self.type.shape)
        array: NDArray[Any] = pa.ExtensionArray.from_storage(kind, self.storage).to_numpy_ndarray()
        return array

    def to_encoded(
        self,
        encoder: Callable[[NDArray[Any]], pa.Array] | None = None,
        storage_type: pa.DataType = pa.binary(),  # noqa: B008
    ) -> ImageArray:
        """Return the images as files.

        Args:
            encoder: A function from pixels of shape (n, ...) to binary values; None for PNG by
                Pillow.
            storage_type: `pa.binary()`, or `pa.large_binary()` for more than 2 GiB.

        Raises:
            MissingDependencyError: If Pillow is needed and not installed.
        """
        files = (encoder or _encoded)(self.to_numpy())
        return _of(EncodedImageType(storage_type), files.cast(storage_type))


ARRAYS: dict[type, type[pa.ExtensionArray]] = {
    ImageURIType: ImageURIArray,
    EncodedImageType: EncodedImageArray,
    FixedShapeImageTensorType: FixedShapeImageTensorArray,
}
SCALARS: dict[type, type[pa.ExtensionScalar]] = {
    ImageURIType: ImageURIScalar,
    EncodedImageType: EncodedImageScalar,
    FixedShapeImageTensorType: FixedShapeImageTensorScalar,
}


def shown(value: Any) -> str:
    """Return a value for a reader; the beginning of a long one."""
    text = repr(value[:_SHOWN_BYTES] if isinstance(value, bytes) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _of(kind: pa.ExtensionType, storage: pa.Array) -> ImageArray:
    found: ImageArray = pa.ExtensionArray.from_storage(kind, storage)
    return found


def _read(uri: str) -> bytes:
    scheme = urlparse(uri).scheme
    if scheme in {"http", "https"}:
        with urlopen(uri) as answer:
            data: bytes = answer.read()
            return data
    files, path = (fs.LocalFileSystem(), uri) if not scheme else fs.FileSystem.from_uri(uri)
    with files.open_input_stream(path) as stream:
        read: bytes = stream.read()
        return read


def pillow() -> ModuleType:
    """Return `PIL.Image`; raise MissingDependencyError if Pillow is not installed."""
    try:
        return importlib.import_module("PIL.Image")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "images are decoded and encoded by Pillow: pip install pillow, or pass a function"
        ) from error


def _decoded(files: pa.Array) -> NDArray[Any]:
    open_image = pillow().open
    return np.stack([np.asarray(open_image(io.BytesIO(file))) for file in files.to_pylist()])


def _encoded(images: NDArray[Any]) -> pa.Array:
    from_array, files = pillow().fromarray, []
    for pixels in images:
        file = io.BytesIO()
        from_array(pixels).save(file, format="PNG")
        files.append(file.getvalue())
    return pa.array(files, pa.large_binary())


register(ImageURIType(), EncodedImageType(), FixedShapeImageTensorType(pa.uint8(), (0,)))
