"""Messages of vector indices: bytes that were observed, and damage."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.pb import index_pb2 as pb
from pilum.index.vector.messages import (
    FLAT,
    PQ,
    RQ,
    SQ,
    Compression,
    GraphParameters,
    IvfMessage,
    VectorDetails,
    pack_tensor,
    unpack_tensor,
)
from pilum.index.vector.metrics import Metric

GOLDEN_PARTITIONS = bytes.fromhex("120700f813f328bc3b1a08f813fb14c912d412")
"""Written by the reference: 10 000 rows in four partitions."""


def test_partitions_are_these_bytes() -> None:
    lengths = np.array([2552, 2683, 2377, 2388])
    assert IvfMessage.of_lengths(lengths).pack() == GOLDEN_PARTITIONS
    parsed = IvfMessage.parse(GOLDEN_PARTITIONS, "")
    assert parsed.offsets.tolist() == [0, 2552, 5235, 7612]
    assert parsed.lengths.tolist() == lengths.tolist()
    assert parsed.centroids is None
    assert parsed.loss is None


def test_centroids_and_loss_follow_the_partitions() -> None:
    centroids = np.arange(8, dtype=np.float32).reshape(4, 2)
    data = IvfMessage.of_lengths(np.zeros(4, np.int64), centroids, 2.5).pack()
    assert data.startswith(bytes.fromhex("1204000000001a040000000022280802120204021a20"))
    assert data.endswith(b"\x29" + np.float64(2.5).tobytes())
    parsed = IvfMessage.parse(data, "")
    assert parsed.centroids is not None
    assert (parsed.centroids == centroids).all()
    assert parsed.loss == 2.5


def test_old_centroids_are_a_list_of_numbers() -> None:
    data = pb.Ivf(centroids=[1, 2, 3, 4], offsets=[0, 9], lengths=[1, 2]).SerializeToString()
    parsed = IvfMessage.parse(data, "", dimension=2)
    assert parsed.centroids is not None
    assert parsed.centroids.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(CorruptFileError, match="4 numbers for centroids of 3"):
        IvfMessage.parse(data, "old.idx", dimension=3)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "u2", "u4", "u8"])
def test_tensors_of_every_element_type(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    parsed = unpack_tensor(pack_tensor(array), "", "tensor")
    assert parsed.dtype == array.dtype
    assert (parsed == array).all()


def test_a_tensor_whose_bytes_do_not_fit_its_shape_is_corrupt() -> None:
    for shape in ([3, 2], [1 << 31, 1 << 31], [], [0]):
        data = pb.Tensor(data_type=pb.Tensor.FLOAT32, shape=shape, data=b"1234").SerializeToString()
        with pytest.raises(CorruptFileError, match="4 bytes for float32"):
            unpack_tensor(data, "auxiliary.idx", "codebook")
    with pytest.raises(UnsupportedFeatureError, match="codebook of element type 0"):
        unpack_tensor(pb.Tensor(shape=[2], data=b"1234").SerializeToString(), "a", "codebook")


def test_partitions_that_do_not_fit_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="2 offsets, 1 lengths"):
        IvfMessage.parse(pb.Ivf(offsets=[0, 1], lengths=[1]).SerializeToString(), "index.idx")
    with pytest.raises(CorruptFileError, match="a partition at"):
        IvfMessage.parse(pb.Ivf(offsets=[1 << 63], lengths=[1]).SerializeToString(), "index.idx")
    centroids = IvfMessage.of_lengths(np.zeros(3, np.int64), np.ones((2, 2), np.float32)).pack()
    with pytest.raises(CorruptFileError, match="2 centroids, 3 partitions"):
        IvfMessage.parse(centroids, "index.idx")


@given(st.binary(max_size=40))
def test_any_bytes_parse_or_are_corrupt(data: bytes) -> None:
    for parse in (IvfMessage.parse, VectorDetails.parse):
        with contextlib.suppress(CorruptFileError, UnsupportedFeatureError):
            parse(data, "index.idx")


def test_details_are_these_bytes() -> None:
    """Bytes written by the reference, without its hints."""
    product = VectorDetails(Metric.L2, Compression(PQ, 8, 4))
    assert product.pack() == bytes.fromhex("220408081004")
    graph = VectorDetails(Metric.L2, Compression(FLAT), GraphParameters())
    assert graph.pack().startswith(bytes.fromhex("1a0708141096011807"))


@pytest.mark.parametrize(
    ("details", "name"),
    [
        (VectorDetails(Metric.L2, Compression(FLAT)), "IVF_FLAT"),
        (VectorDetails(Metric.DOT, Compression(PQ, 4, 16), target_partition_size=7), "IVF_PQ"),
        (VectorDetails(Metric.COSINE, Compression(SQ, 8), hints={"a": "1"}), "IVF_SQ"),
        (VectorDetails(Metric.L2, Compression(RQ, 5, has_matrix=True)), "IVF_RQ"),
        (VectorDetails(Metric.HAMMING, Compression(FLAT), GraphParameters()), "IVF_HNSW_FLAT"),
        (
            VectorDetails(Metric.L2, Compression(SQ, 8), GraphParameters(9, 8, 7), 0, {}, 33),
            "IVF_HNSW_SQ",
        ),
    ],
)
def test_details_survive_and_name_their_type(details: VectorDetails, name: str) -> None:
    assert VectorDetails.parse(details.pack()) == details
    assert details.name == name


def test_details_are_described_by_the_names_of_the_reference() -> None:
    details = VectorDetails(
        Metric.COSINE, Compression(PQ, 8, 4), GraphParameters(), 100, {"lance.ivf.max_iters": "50"}
    )
    assert details.described() == {
        "metric_type": "COSINE",
        "target_partition_size": 100,
        "hnsw": {"max_connections": 20, "construction_ef": 150, "max_level": 7},
        "compression": {"type": "pq", "num_bits": 8, "num_sub_vectors": 4},
        "runtime_hints": {"lance.ivf.max_iters": "50"},
    }
    rotated = VectorDetails(Metric.L2, Compression(RQ, 5)).described()
    assert rotated["compression"] == {"type": "rq", "num_bits": 5, "rotation_type": "fast"}
    assert "compression" not in VectorDetails(Metric.L2, Compression(FLAT)).described()
