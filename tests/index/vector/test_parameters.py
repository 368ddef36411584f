"""The keywords of `create_index` for vectors: what is accepted, and what is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError, UnsupportedFeatureError, UnsupportedTypeError
from pilum.index.vector.messages import FLAT, PQ, RQ, SQ, VectorDetails
from pilum.index.vector.metrics import Metric
from pilum.index.vector.parameters import VectorParameters
from pilum.index.vector.vectors import VectorType, vector_column

_TYPE = pa.list_(pa.float32(), 16)
_CENTROIDS = np.eye(5, 16, dtype=np.float32)


def _parameters(
    kind: str = FLAT, type: pa.DataType = _TYPE, *, has_graph: bool = False, **given: Any
) -> VectorParameters:
    return VectorParameters.from_keywords(kind, has_graph, given, type)


def test_defaults() -> None:
    found = _parameters()
    assert (found.metric, found.num_partitions, found.graph) == (Metric.L2, None, None)
    assert (found.sample_rate, found.max_iterations, found.partition_size) == (256, 50, 4096)
    assert _parameters(RQ).compression.num_bits == 5
    assert _parameters(SQ, num_bits=3).compression.num_bits == 8
    assert _parameters(PQ, num_sub_vectors=4).partition_size == 8192
    graph = _parameters(SQ, has_graph=True, m=8, ef_construction=30, max_level=2).graph
    assert graph is not None
    assert (graph.max_connections, graph.construction_ef, graph.max_level) == (8, 30, 2)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"metric": "manhattan"}, "no metric 'manhattan'"),
        ({"metric": "hamming"}, "metric 'hamming' for vectors of float32"),
        ({"kind": PQ}, "num_sub_vectors are required for IVF_PQ"),
        ({"kind": PQ, "num_sub_vectors": 3}, "must be divisible by num_sub_vectors"),
        ({"kind": PQ, "num_sub_vectors": 0}, "num_sub_vectors: expected at least 1, found 0"),
        ({"kind": PQ, "num_sub_vectors": 4, "num_bits": 5}, "4 or 8, found 5"),
        ({"kind": PQ, "num_sub_vectors": 1, "num_bits": 4}, "divisible by 2 for num_bits=4"),
        ({"kind": RQ, "num_bits": 10}, r"num_bits must be in 1\.\.=9, got 10"),
        ({"kind": RQ, "type": pa.list_(pa.float32(), 12)}, "must be divisible by 8"),
        ({"kind": RQ, "rabitq_model": "[1]"}, "rabitq_model: expected a JSON object"),
        ({"kind": RQ, "rabitq_model": "{"}, "rabitq_model: expected a JSON object"),
        ({"has_graph": True, "m": 2}, "m: expected at least 4, found 2"),
        ({"has_graph": True, "ef_construction": 10}, r"must be at least m \(20\), found 10"),
        ({"has_graph": True, "max_level": 0}, "max_level: expected at least 1, found 0"),
        ({"num_partitions": 0}, "num_partitions: expected at least 1, found 0"),
        ({"num_partitions": "4"}, "num_partitions: expected an integer, found '4'"),
        ({"target_partition_size": 0}, "target_partition_size: expected at least 1"),
        ({"sample_rate": 0}, "sample_rate: expected at least 1, found 0"),
        ({"max_iters": -1}, "max_iters: expected at least 1, found -1"),
        ({"memory_limit": 0}, "memory_limit: expected at least 1, found 0"),
        ({"index_file_version": "V9"}, "expected 'V3' or 'Legacy', found 'V9'"),
        ({"ivf_centroids": _CENTROIDS, "num_partitions": 6}, "5 clusters, but num_partitions=6"),
        ({"ivf_centroids": _CENTROIDS[:, :8]}, "vectors of 8 elements; those of the"),
        ({"ivf_centroids": _CENTROIDS[0]}, r"2D array: \(clusters, dim\), got \(16,\)"),
        ({"ivf_centroids": _CENTROIDS[:0]}, "at least one cluster"),
        ({"ivf_centroids": _CENTROIDS * np.nan}, "must be finite in float32"),
        ({"ivf_centroids": [["a"] * 16]}, "expected floating numbers"),
        ({"kind": PQ, "num_sub_vectors": 4, "pq_codebook": np.ones((4, 256, 4))}, "specified"),
        (
            {
                "kind": PQ,
                "num_sub_vectors": 4,
                "ivf_centroids": _CENTROIDS,
                "pq_codebook": np.zeros((2, 256, 8)),
            },
            "must be 3D array",
        ),
    ],
)  # fmt: skip
def test_invalid_keywords(keywords: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        _parameters(**keywords)


def test_the_legacy_layout_is_refused_where_it_exists() -> None:
    with pytest.raises(UnsupportedFeatureError, match="the legacy layout is read but not written"):
        _parameters(PQ, num_sub_vectors=4, index_file_version="Legacy")
    assert _parameters(FLAT, index_file_version="Legacy").compression.kind == FLAT
    assert _parameters(PQ, num_sub_vectors=4, index_file_version="V3").compression.kind == PQ


def test_bits_are_compared_by_hamming() -> None:
    type = pa.list_(pa.uint8(), 8)
    assert _parameters(type=type, metric="hamming").metric is Metric.HAMMING
    with pytest.raises(InvalidInputError, match="metric 'l2' for vectors of uint8"):
        _parameters(type=type)
    with pytest.raises(UnsupportedTypeError, match="IVF_FLAT and IVF_HNSW_FLAT"):
        _parameters(SQ, type=type, metric="hamming")


def test_lists_of_vectors_are_compared_by_cosine() -> None:
    type = pa.list_(_TYPE)
    assert _parameters(type=type, metric="cosine").vectors.is_multi
    with pytest.raises(InvalidInputError, match="supports only cosine distance"):
        _parameters(type=type)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_given_models_have_the_element_type_of_the_column(dtype: Any) -> None:
    type = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), 16)
    codebook = np.random.default_rng(1).normal(size=(4, 256, 4))
    forms = [
        codebook,
        vector_column(codebook.reshape(256, 16)),
        vector_column(codebook.reshape(-1, 4)),
    ]
    for centroids in (_CENTROIDS, vector_column(_CENTROIDS), _CENTROIDS.tolist()):
        found = _parameters(
            PQ, type, num_sub_vectors=4, ivf_centroids=centroids, pq_codebook=forms.pop()
        )
        assert found.centroids is not None
        assert found.codebook is not None
        assert found.centroids.dtype == found.codebook.dtype == dtype
        assert np.array_equal(found.centroids, _CENTROIDS.astype(dtype))
        assert np.array_equal(found.codebook, codebook.astype(dtype))


def test_a_number_of_partitions_may_be_a_float() -> None:
    with pytest.warns(UserWarning, match="num_partitions is float"):
        assert _parameters(num_partitions=2.5).num_partitions == 2


def test_unknown_keywords_are_ignored() -> None:
    assert _parameters(kmeans_redos=3, rotation_type="matrix").compression.kind == FLAT


@pytest.mark.parametrize(
    ("kind", "has_graph", "given"),
    [
        (FLAT, False, {"target_partition_size": 77}),
        (PQ, False, {"num_sub_vectors": 8, "num_bits": 4, "metric": "cosine", "max_iters": 3}),
        (SQ, True, {"m": 10, "ef_construction": 40, "max_level": 5, "sample_rate": 10}),
        (RQ, False, {"num_bits": 2, "skip_transpose": True, "metric": "dot"}),
    ],
)
def test_details_have_everything_that_a_new_training_needs(
    kind: str, has_graph: bool, given: dict[str, Any]
) -> None:
    parameters = _parameters(kind, has_graph=has_graph, **given)
    details = VectorDetails.parse(parameters.details().pack())
    again = VectorParameters.from_details(details, VectorType.of("v", _TYPE))
    assert again.details() == details
    for name in ("metric", "compression", "graph", "sample_rate", "max_iterations", "is_plain"):
        assert getattr(again, name) == getattr(parameters, name)


def test_hints_are_those_of_the_reference() -> None:
    assert dict(_parameters(PQ, num_sub_vectors=4, has_graph=True).details().hints) == {
        "lance.ivf.max_iters": "50",
        "lance.ivf.sample_rate": "256",
        "lance.ivf.shuffle_partition_batches": "10240",
        "lance.ivf.shuffle_partition_concurrency": "2",
        "lance.pq.max_iters": "50",
        "lance.pq.sample_rate": "256",
        "lance.pq.kmeans_redos": "1",
        "lance.hnsw.prefetch_distance": "2",
        "lance.skip_transpose": "false",
    }


def test_shards_have_plain_rows() -> None:
    given: dict[str, Any] = {"ivf_centroids": _CENTROIDS, "is_shard": True}
    assert _parameters(PQ, num_sub_vectors=4, **given).is_plain
    assert not _parameters(RQ, **given).is_plain
    assert _parameters(RQ, rabitq_model={"num_bits": 5}, **given).is_plain
    assert not _parameters(FLAT, **given).is_plain
