"""Values of Hugging Face features, such as images, in the form that PyTorch works with."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pilum.arrow.images import pillow
from pilum.errors import UnsupportedTypeError

__all__ = ["HuggingFaceConverter"]


class HuggingFaceConverter:
    """Converts columns by the description that Hugging Face stores in a schema.

    Args:
        ds_info: The value of the schema's metadata "huggingface".
    """

    def __init__(self, ds_info: Mapping[str, Any]) -> None:
        self.ds_info = ds_info

    def to_pytorch(self, col: str, array: pa.Array) -> list[Any] | None:
        """Return the images of a column; None if the description does not have it.

        Raises:
            UnsupportedTypeError: If the feature is not one of images.
            MissingDependencyError: If Pillow is not installed.
        """
        feature = self.ds_info.get("info", {}).get("features", {}).get(col)
        if feature is None:
            return None
        if feature["_type"] != "Image":
            raise UnsupportedTypeError(f"column {col!r}: no form for features {feature['_type']}")
        return [_image(row) for row in array.to_pylist()]


def _image(row: Mapping[str, Any]) -> Any:
    stored = row.get("bytes")
    return pillow().open(row["path"] if stored is None else io.BytesIO(stored))
