"""Builds of IVF_PQ indices in steps, with files that both libraries have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest
from servers.moto import aws_options, client
from servers.processes import Server

import pilum
from pilum.errors import (
    CorruptFileError,
    IndexAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from pilum.file import LanceFileReader
from pilum.index.vector.vectors import vector_column
from pilum.indices import IndicesBuilder, IvfModel, PqModel

COUNT, DIMENSION = 700, 8
VECTORS = np.random.default_rng(1).normal(size=(COUNT, DIMENSION)).astype(np.float32)
VECTORS[5, 0] = np.nan


def dataset_of(path: Path, **options: Any) -> pilum.LanceDataset:
    """Returns a table of three fragments."""
    data = pa.table({"id": np.arange(COUNT), "v": vector_column(VECTORS)})
    return pilum.write_dataset(data, path, max_rows_per_file=300, **options)


def models(builder: IndicesBuilder, metric: str, num_bits: int = 8) -> tuple[IvfModel, PqModel]:
    """Returns models with 3 partitions and 4 sub-vectors."""
    ivf = builder.train_ivf(3, distance_type=metric, sample_rate=50)
    return ivf, builder.train_pq(ivf, 4, sample_rate=2, num_bits=num_bits)


def table_of(path: Path) -> pa.Table:
    """Returns the rows of a file."""
    return LanceFileReader(path).read_all().to_table()


def found(dataset: Any) -> tuple[list[int], Any]:
    """Returns the ids and distances that the index finds in all partitions."""
    near = {"column": "v", "q": VECTORS[3], "k": 20, "nprobes": 3}
    rows = dataset.to_table(columns=["id", "_distance"], nearest=near)
    return rows["id"].to_pylist(), rows["_distance"].to_numpy()


@pytest.mark.parametrize(
    ("metric", "num_bits", "has_ids"), [("l2", 8, False), ("cosine", 8, True), ("dot", 4, False)]
)
def test_an_index_of_steps_is_the_index_of_one(
    tmp_path: Path, metric: str, num_bits: int, has_ids: bool
) -> None:
    dataset = dataset_of(tmp_path / "t", enable_stable_row_ids=has_ids)
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models(builder, metric, num_bits)
    fragments = dataset.get_fragments()
    for number, part in enumerate((fragments[:1], fragments[1:])):
        builder.transform_vectors(ivf, pq, str(tmp_path / f"part{number}.lance"), part)
    parts = ["part0.lance", "part1.lance"]
    names = builder.shuffle_transformed_vectors(parts, str(tmp_path), ivf, "in_order")
    assert names == ["in_order_0.lance"]
    rows = table_of(tmp_path / names[0])
    assert rows.num_rows == COUNT - 1
    assert (np.diff(rows["__ivf_part_id"].to_numpy().astype(np.int64)) >= 0).all()
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq)

    other = dataset_of(tmp_path / "other", enable_stable_row_ids=has_ids)
    given: dict[str, Any] = {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}
    other.create_index("v", "IVF_PQ", metric=metric, num_sub_vectors=4, num_bits=num_bits, **given)
    expected = found(other)
    for one in (dataset, lance.dataset(tmp_path / "t")):
        own_ids, distances = found(one)
        assert own_ids == expected[0]
        np.testing.assert_allclose(distances, expected[1], atol=1e-5)
    own, theirs = (one.stats.index_stats("v_idx") for one in (dataset, other))
    assert own["num_indexed_rows"] == theirs["num_indexed_rows"] == COUNT
    assert own["indices"][0]["loss"] == pytest.approx(theirs["indices"][0]["loss"], rel=1e-4)


def test_the_files_of_steps_are_opened_with_the_storage_options(aws: Server) -> None:
    pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")
    bucket, options = f"bucket-{uuid4().hex}", aws_options(aws.url)
    client(aws.url).create_bucket(Bucket=bucket)
    folder = f"s3://{bucket}/steps"
    data = pa.table({"id": np.arange(COUNT), "v": vector_column(VECTORS)})
    dataset = pilum.write_dataset(data, f"s3://{bucket}/t", storage_options=options)
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models(builder, "l2")
    assigned = builder.assign_ivf_partitions(ivf, output_uri=f"{folder}/assigned.lance")
    builder.transform_vectors(ivf, pq, f"{folder}/a.lance", partition_ds_uri=assigned)
    names = builder.shuffle_transformed_vectors(["a.lance"], folder, ivf)
    builder.load_shuffled_vectors(names, folder, ivf, pq)
    assert found(dataset)[0]
    assert dataset.stats.index_stats("v_idx")["num_indexed_rows"] == COUNT


def test_rows_that_moved_since_they_were_transformed(tmp_path: Path) -> None:
    """The fragment that they moved to has further rows, so it is not covered."""
    dataset = dataset_of(tmp_path / "t", enable_stable_row_ids=True)
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models(builder, "l2")
    builder.transform_vectors(ivf, pq, f"{tmp_path}/a.lance", dataset.get_fragments()[:1])
    dataset.update({"id": "id + 1000"}, where="id % 100 = 7")
    names = builder.shuffle_transformed_vectors(["a.lance"], str(tmp_path), ivf)
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq, "x")
    [index] = dataset.describe_indices()
    assert list(index.segments[0].fragment_ids or ()) == [0]
    near = {"column": "v", "q": VECTORS[3], "k": COUNT, "nprobes": 3}
    rows = dataset.to_table(columns=["id", "_distance"], nearest=near)
    moved = {number + 1000 * (number % 100 == 7) for number in range(COUNT)}
    assert set(rows["id"].to_pylist()) == moved - {5}  # which has a NaN


def test_both_transform_vectors_alike(tmp_path: Path) -> None:
    builder = IndicesBuilder(dataset_of(tmp_path / "t"), "v")
    ivf, pq = models(builder, "l2")
    builder.transform_vectors(ivf, pq, str(tmp_path / "own.lance"))
    peer = lance.indices.IndicesBuilder(lance.dataset(tmp_path / "t"), "v")
    peers_ivf = lance.indices.IvfModel(ivf.centroids, "l2")
    peers_pq = lance.indices.PqModel(4, pq.codebook)
    peer.transform_vectors(peers_ivf, peers_pq, str(tmp_path / "peer.lance"))
    own, theirs = (table_of(tmp_path / f"{name}.lance") for name in ("own", "peer"))
    assert own.sort_by("_rowid").to_pydict() == theirs.sort_by("_rowid").to_pydict()
    assert own.schema.equals(theirs.schema)
    names = builder.shuffle_transformed_vectors(["peer.lance"], str(tmp_path), ivf)
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq, "of_peer")
    own_found, theirs_found = found(builder.dataset), found(lance.dataset(tmp_path / "t"))
    assert own_found[0] == theirs_found[0]
    np.testing.assert_allclose(own_found[1], theirs_found[1], atol=1e-5)


def test_partitions_are_assigned_once(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "t")
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models(builder, "l2")
    uri = builder.assign_ivf_partitions(ivf, output_uri=str(tmp_path / "assigned"))
    assigned = lance.dataset(uri).to_table()
    centroids = np.array(ivf.centroids.to_pylist())
    usable = np.delete(np.arange(COUNT), 5)
    distances = ((VECTORS[usable, None] - centroids) ** 2).sum(axis=2)
    assert assigned["partition"].to_pylist() == distances.argmin(axis=1).tolist()
    rows = dataset.to_table(["_rowid"])["_rowid"].to_numpy()[usable]
    assert assigned["row_id"].to_pylist() == rows.tolist()
    for name, place in (("a", None), ("b", uri)):
        builder.transform_vectors(ivf, pq, str(tmp_path / f"{name}.lance"), partition_ds_uri=place)
    assert table_of(tmp_path / "a.lance").equals(table_of(tmp_path / "b.lance"))
    dataset.create_index(
        "v",
        "IVF_FLAT",
        ivf_centroids=ivf.centroids,
        precomputed_partition_dataset=builder.assign_ivf_partitions(ivf),
    )
    assert found(dataset)[0][0] == 3


def test_errors(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "t")
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models(builder, "l2")
    folder = str(tmp_path)
    unsorted, other = str(tmp_path / "u.lance"), str(tmp_path / "other.lance")
    builder.transform_vectors(ivf, pq, unsorted)
    narrow = PqModel(2, vector_column(np.zeros((256, DIMENSION), np.float32)))
    builder.transform_vectors(ivf, narrow, other)
    few = IvfModel(ivf.centroids.slice(0, 1), "l2")
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: builder.assign_ivf_partitions(ivf, "tpu"), InvalidInputError, "tpu"),
        (lambda: builder.transform_vectors(ivf, pq, other, []), InvalidInputError, "non-empty"),
        (
            lambda: builder.shuffle_transformed_vectors("u.lance", folder, ivf),  # type: ignore[arg-type]
            InvalidInputError,
            "list of strings",
        ),
        (
            lambda: builder.shuffle_transformed_vectors(["none.lance"], folder, ivf),
            NotFoundError,
            "none.lance",
        ),
        (
            lambda: builder.shuffle_transformed_vectors(["u.lance"], folder, few),
            InvalidInputError,
            "the model has 1",
        ),
        (
            lambda: builder.shuffle_transformed_vectors(["u.lance", "other.lance"], folder, ivf),
            InvalidInputError,
            "codes of 4 and 2 bytes",
        ),
        (
            lambda: builder.load_shuffled_vectors(["u.lance"], folder, ivf, narrow),
            InvalidInputError,
            "the model has 2 bytes",
        ),
    ]
    for call, kind, message in calls:
        with pytest.raises(kind, match=message):
            call()
    ivf.save(tmp_path / "ivf.lance")
    with pytest.raises(InvalidInputError, match="no columns"):
        builder.load_shuffled_vectors(["ivf.lance"], folder, ivf, pq)
    (tmp_path / "cut.lance").write_bytes(Path(unsorted).read_bytes()[:-20])
    with pytest.raises(CorruptFileError):
        builder.load_shuffled_vectors(["cut.lance"], folder, ivf, pq)
    assert not dataset.list_indices()
    builder.load_shuffled_vectors(["u.lance"], folder, ivf, pq)
    with pytest.raises(IndexAlreadyExistsError):
        builder.load_shuffled_vectors(["u.lance"], folder, ivf, pq)
    smaller = pilum.write_dataset(dataset.head(100), tmp_path / "smaller")
    with pytest.raises(InvalidInputError, match="which the table does not have"):
        IndicesBuilder(smaller, "v").load_shuffled_vectors(["u.lance"], folder, ivf, pq)
