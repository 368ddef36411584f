"""The extension types of images: places, encoded files, and pixels."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrow.registration import with_storage
from pilum.errors import CorruptFileError, InvalidInputError

__all__ = ["EncodedImageType", "FixedShapeImageTensorType", "ImageURIType"]


class _ImageType(pa.ExtensionType):  # type: ignore[misc]
    """A type without parameters other than its storage."""

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[pa.ExtensionArray]:
        from pilum.arrow import images  # its arrays need these types

        return images.ARRAYS[type(self)]

    def __arrow_ext_scalar_class__(self) -> type[pa.ExtensionScalar]:
        from pilum.arrow import images

        return images.SCALARS[type(self)]


class ImageURIType(_ImageType):
    """The type of arrays of places of images.

    Args:
        storage_type: The type of strings.
    """

    def __init__(self, storage_type: pa.DataType = pa.string()) -> None:  # noqa: B008
        if not (pt.is_string(storage_type) or pt.is_large_string(storage_type)):
            raise InvalidInputError(f"storage_type: expected strings, found {storage_type}")
        super().__init__(storage_type, "lance.arrow.image_uri")


class EncodedImageType(_ImageType):
    """The type of arrays of files of images, such as PNG.

    Args:
        storage_type: The type of binary values.
    """

    def __init__(self, storage_type: pa.DataType = pa.binary()) -> None:  # noqa: B008
        if not (pt.is_binary(storage_type) or pt.is_large_binary(storage_type)):
            raise InvalidInputError(f"storage_type: expected binary values, found {storage_type}")
        super().__init__(storage_type, "lance.arrow.encoded_image")


class FixedShapeImageTensorType(_ImageType):
    """The type of arrays of pixels: images of one shape.

    Args:
        arrow_type: The type of a value of a pixel.
        shape: The shape of an image, such as (height, width, channels).
    """

    def __init__(self, arrow_type: pa.DataType, shape: Sequence[int]) -> None:
        if not shape:
            raise InvalidInputError("shape: an image has at least one dimension")
        self.arrow_type, self.shape = arrow_type, shape
        storage = pa.list_(arrow_type, math.prod(shape))
        super().__init__(storage, "lance.arrow.fixed_shape_image_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": list(self.shape)}).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        try:
            items, count = storage_type.value_type, storage_type.list_size
            found = cls(items, json.loads(serialized)["shape"])
        except (AttributeError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise CorruptFileError(
                f"an image tensor of {storage_type} with the parameters {serialized!r:.80}"
            ) from error
        return with_storage(found, pa.list_(items, count))
