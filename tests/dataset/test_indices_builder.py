"""Models that are trained apart from an index: both libraries read and use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, IndexNotFoundError, InvalidInputError
from pilum.file import LanceFileWriter
from pilum.index.vector.vectors import vector_column
from pilum.indices import IndicesBuilder, IvfModel, PqModel
from pilum.vector import vec_to_table


def _dataset(path: Path, num_rows: int = 1200) -> pilum.LanceDataset:
    vectors = np.random.default_rng(1).normal(size=(num_rows, 16)).astype(np.float32)
    data = pa.table({"id": np.arange(num_rows), "v": vector_column(vectors)})
    return pilum.write_dataset(data, path, max_rows_per_file=500)


def test_models_are_read_by_the_reference(tmp_path: Path) -> None:
    builder = IndicesBuilder(_dataset(tmp_path / "t"), "v")
    ivf = builder.train_ivf(4, distance_type="cosine", fragment_ids=[0, 2], sample_rate=50)
    pq = builder.train_pq(ivf, 4, num_bits=4, sample_rate=20)
    assert (ivf.num_partitions, pq.dimension, len(pq.codebook)) == (4, 16, 16)
    ivf.save(tmp_path / "ivf.lance")
    pq.save(tmp_path / "pq.lance")
    for kind in (IvfModel, lance.indices.IvfModel):
        one: Any = kind.load(str(tmp_path / "ivf.lance"))
        assert one.centroids.equals(ivf.centroids)
        assert one.distance_type == "cosine"
    for other in (PqModel, lance.indices.PqModel):
        two: Any = other.load(str(tmp_path / "pq.lance"))
        assert two.codebook.equals(pq.codebook)
        assert (two.num_subvectors, two.num_bits, two.dimension) == (4, 4, 16)
    lance.indices.IvfModel(ivf.centroids, "l2").save(str(tmp_path / "theirs.lance"))
    assert IvfModel.load(tmp_path / "theirs.lance").centroids.equals(ivf.centroids)


def test_models_build_an_index(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path / "t")
    models: dict[str, Any] = IndicesBuilder(dataset, "v").prepare_global_ivf_pq(
        3, None, sample_rate=4
    )
    dataset.create_index("v", "IVF_PQ", num_sub_vectors=1, **models)
    model = dataset.get_ivf_model("v_idx")
    assert model.centroids.equals(models["ivf_centroids"])
    assert dataset.centroids(column="v").equals(model.centroids)
    assert lance.dataset(tmp_path / "t").centroids(column="v").equals(model.centroids)


def test_errors(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path / "t")
    builder = IndicesBuilder(dataset, "v")
    ivf = builder.train_ivf(2, sample_rate=20)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: builder.train_ivf(100), "not enough rows in the dataset to train centroids"),
        (lambda: builder.train_ivf(2, distance_type="x"), "no metric 'x'"),
        (lambda: builder.train_ivf(2, distance_type="hamming"), "'hamming' for vectors of float32"),
        (lambda: builder.train_ivf(2, sample_rate=1), "sample_rate: expected at least 2"),
        (lambda: builder.train_ivf(2, fragment_ids=[9]), r"the table has no fragments \[9\]"),
        (lambda: builder.train_pq(ivf), "not enough rows in the dataset to train the codebook"),
        (lambda: builder.train_pq(ivf, 3, sample_rate=2), r"\(16\) must be divisible"),
        (lambda: builder.train_pq(ivf, 4, num_bits=5), "expected 4 or 8, found 5"),
        (lambda: builder.train_ivf(2, accelerator="gpu"), "accelerator='gpu': expected 'cuda'"),
        (lambda: IndicesBuilder(dataset, "id"), "column 'id' has type int64"),
        (lambda: IndicesBuilder(dataset, "x"), "no column 'x'"),
        (lambda: IvfModel(pa.array([1]), "l2"), "expected fixed-size lists"),
        (lambda: PqModel(0, ivf.centroids), "num_subvectors: expected at least 1"),
        (dataset.centroids, "Must provide 'index_name' or 'column'"),
    ]
    for call, text in calls:
        with pytest.raises((InvalidInputError, NotImplementedError), match=text):
            call()
    with pytest.raises(IndexNotFoundError, match="no index 'v_idx'"):
        dataset.get_ivf_model("v_idx")
    dataset.create_scalar_index("id", "BTREE")
    with pytest.raises(InvalidInputError, match="'id_idx' is not one of vectors"):
        dataset.get_ivf_model("id_idx")
    dataset.create_index("v", "IVF_FLAT", train=False)
    with pytest.raises(IndexNotFoundError, match="'v_idx' has no files"):
        dataset.get_ivf_model("v_idx")


def test_other_files_are_no_models(tmp_path: Path) -> None:
    with LanceFileWriter(tmp_path / "other.lance") as file:
        file.write_batch(pa.table({"centroids": [1]}))
    schema = pa.schema({"codebook": pa.list_(pa.float32(), 2)}, {"num_subvectors": "many"})
    with LanceFileWriter(tmp_path / "many.lance", schema) as file:
        file.write_batch(pa.table([pa.array([[1, 2]], schema.field(0).type)], schema=schema))
    with pytest.raises(CorruptFileError, match="no model with the column 'centroids'"):
        IvfModel.load(tmp_path / "other.lance")
    with pytest.raises(CorruptFileError, match="model with many sub-vectors"):
        PqModel.load(tmp_path / "many.lance")


def test_tables_of_vectors() -> None:
    one = vec_to_table({"a": [1, 2], "b": np.array([3, 4])})
    assert one.to_pylist() == [{"id": "a", "vector": [1, 2]}, {"id": "b", "vector": [3, 4]}]
    assert one.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert vec_to_table(np.eye(2), "v")["v"].to_pylist() == [[1, 0], [0, 1]]
    assert vec_to_table([[1, 2, 3, 4]], ndim=2, check_ndim=False).num_rows == 2
    for data, keywords in (
        ([[1, 2], [3]], {}),
        ([[1, 2]], {"names": ["a", "b"]}),
        ({"a": [1]}, {"names": "v"}),
        ([], {}),
        ([[1, 2, 3]], {"ndim": 2, "check_ndim": False}),
    ):
        with pytest.raises(InvalidInputError):
            vec_to_table(data, **keywords)
