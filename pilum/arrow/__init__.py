"""Arrow extension types: numbers of 16 bits as `bfloat16`, and images.

    BFloat16Type                 "lance.bfloat16"                        fixed_size_binary[2]
    ImageURIType                 "lance.arrow.image_uri"                 string, large_string
    EncodedImageType             "lance.arrow.encoded_image"             binary, large_binary
    FixedShapeImageTensorType    "lance.arrow.fixed_shape_image_tensor"  fixed_size_list

Importing this module registers the types, so that tables return them; before, they return storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilum.arrow.bfloat16 import (
    BFloat16,
    BFloat16Array,
    BFloat16Scalar,
    BFloat16Type,
    bfloat16_array,
)
from pilum.arrow.casts import cast
from pilum.arrow.images import (
    EncodedImageArray,
    EncodedImageScalar,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorScalar,
    ImageArray,
    ImageScalar,
    ImageURIArray,
    ImageURIScalar,
)
from pilum.arrow.types import EncodedImageType, FixedShapeImageTensorType, ImageURIType

if TYPE_CHECKING:
    from pilum.arrow.frames import PandasBFloat16Array

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
    "PandasBFloat16Array",
    "bfloat16_array",
    "cast",
]


def __getattr__(name: str) -> Any:
    if name != "PandasBFloat16Array":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pilum.arrow.frames import PandasBFloat16Array  # imports pandas

    return PandasBFloat16Array
