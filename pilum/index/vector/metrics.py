"""The distances between vectors: their names, their numbers in files and what they mean.

    l2         squared Euclidean distance
    cosine     1 - cosine of the angle
    dot        1 - inner product
    hamming    number of different bits; of uint8 vectors only

Source: docs/format/vector-indices.md, "Metrics".
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from pilum.errors import CorruptFileError, InvalidInputError

__all__ = ["Metric"]


class Metric(Enum):
    """A distance between vectors; the value is its name in files."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"
    HAMMING = "hamming"

    @classmethod
    def named(cls, name: str) -> Metric:
        """Return the metric with a name of the API, in upper or lower case.

        Raises:
            InvalidInputError: If there is none.
        """
        text = str(name).lower()
        found = cls.L2 if text == "euclidean" else _BY_VALUE.get(text)
        if found is None:
            known = ", ".join(_BY_VALUE)
            raise InvalidInputError(f"no metric {name!r:.40}; there are {known} and euclidean (l2)")
        return found

    @classmethod
    def stored(cls, name: object, path: str) -> Metric:
        """Return the metric that a file names.

        Raises:
            CorruptFileError: If there is none.
        """
        try:
            return cls.named(str(name))
        except InvalidInputError as error:
            raise CorruptFileError(str(error), path) from error

    @classmethod
    def numbered(cls, number: int, path: str) -> Metric:
        """Return the metric with a number in messages.

        Raises:
            CorruptFileError: If there is none.
        """
        if not 0 <= number < len(_IN_ORDER):
            raise CorruptFileError(f"metric number {number}", path)
        return _IN_ORDER[number]

    @classmethod
    def default_of(cls, dtype: np.dtype[Any]) -> Metric:
        """Return the metric for vectors of an element type if there is no index."""
        return cls.HAMMING if dtype == np.uint8 else cls.L2

    @property
    def number(self) -> int:
        """The number in messages."""
        return _IN_ORDER.index(self)

    @property
    def is_normalizing(self) -> bool:
        """Whether vectors are compared after they were scaled to length 1."""
        return self is Metric.COSINE

    @property
    def has_residuals(self) -> bool:
        """Whether product quantization encodes the difference to the centroid."""
        return self in (Metric.L2, Metric.COSINE)


_IN_ORDER = tuple(Metric)
_BY_VALUE = {one.value: one for one in Metric}
