"""Open a segment of a vector index, of either layout.

index.idx, auxiliary.idx    the layout of today
index.idx alone             the legacy layout
"""

from __future__ import annotations

from typing import Any

from pilum.index.files import IndexFolder
from pilum.index.vector.graph_search import StoredGraphs
from pilum.index.vector.legacy import open_legacy
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.segment_files import (
    AUXILIARY_FILE,
    INDEX_FILE,
    AuxiliaryFile,
    IndexHeader,
    PartitionReader,
)

__all__ = ["open_vector_index"]


def open_vector_index(folder: IndexFolder) -> VectorIndex:
    """Open a segment.

    Raises:
        NotFoundError: If a file does not exist.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If the type of the index is unknown.
    """
    if not folder.has(AUXILIARY_FILE):
        model, product, legacy = open_legacy(folder)
        partitions = PartitionReader(legacy, model)
        return VectorIndex("IVF_PQ", model, product, partitions, None, _about(folder, "Legacy"))
    header = IndexHeader.read(folder.open(INDEX_FILE))
    stored, quantizer = AuxiliaryFile.open(folder.open(AUXILIARY_FILE), header)
    partitions = PartitionReader(stored, header.model)
    graphs = None if header.graphs is None else StoredGraphs(header, quantizer, partitions)
    about = _about(folder, "V3")
    return VectorIndex(header.name, header.model, quantizer, partitions, graphs, about)


def _about(folder: IndexFolder, version: str) -> dict[str, Any]:
    return {
        "uuid": folder.path.rpartition("/")[2],
        "uri": f"{folder.store.uri}/{folder.path}/{INDEX_FILE}",
        "index_file_version": version,
    }
