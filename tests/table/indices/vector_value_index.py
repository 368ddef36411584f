"""An index type for tests: all vectors of a column; its distances are twice the squared ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from table.indices.value_index import FILE, ValueIndex, ValueIndexType

from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE, References
from pilum.index.files import IndexFolder
from pilum.index.queries import Query
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Candidates, NearestQuery


class VectorValueIndex(ValueIndex):
    """All rows of a segment."""

    @property
    def model(self) -> Any:
        """The metric."""
        return SimpleNamespace(metric=Metric.L2)

    def references(self) -> NDArray[np.uint64]:
        """Return the references of all rows."""
        return np.asarray(self.rows[REFERENCE].to_numpy())

    def search(self, query: Query) -> None:
        """Answer no conditions."""

    def nearest_batch(
        self, vectors: NDArray[Any], query: NearestQuery, allowed: RowSet | None = None
    ) -> list[Candidates]:
        """Compare all rows."""
        return [self._nearest(vector, query, allowed) for vector in vectors]

    def _nearest(self, vector: Any, query: NearestQuery, allowed: RowSet | None) -> Candidates:
        references = self.references()
        values = np.array(self.rows[VALUE].to_pylist(), np.float32)
        distances = 2 * ((values - vector) ** 2).sum(axis=1)
        kept = np.ones(len(references), np.bool_)
        if allowed is not None:
            kept = np.isin(references, allowed.listed) ^ allowed.is_complement
        references, distances = references[kept], distances[kept]
        order = np.lexsort((references, distances))[: query.k]
        return Candidates(references[order], distances[order].astype(np.float32))


class _VectorValues(ValueIndexType):
    files: ClassVar[tuple[str, ...]] = ()

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Accept everything."""

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> ValueIndex:
        """Read all rows."""
        return VectorValueIndex(folder.open(FILE).read())


class VectorValues(_VectorValues):
    """Refers to rows by ids where there are some."""

    name = "ROWVECTORS"
    type_url = "/tests.RowVectorsIndexDetails"
    references = References.ROW_IDS


VECTOR_TYPES = (VectorValues(),)
