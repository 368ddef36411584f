"""The forms of data that can be written, as a type for annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

__all__ = ["ArrowStream", "ReaderLike"]


class ArrowStream(Protocol):
    """Anything that exports itself as an Arrow stream, such as a table or a data frame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ReaderLike: TypeAlias = (
    ArrowStream | pa.RecordBatch | Mapping[str, Any] | Sequence[Mapping[str, Any]] | Iterable[Any]
)
"""The data that `pilum.write_dataset` takes; its documentation lists the forms."""
