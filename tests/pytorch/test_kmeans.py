"""Distances, k-means and the training of indices by PyTorch, beside numpy and the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

import pilum
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.index.vector import accelerator
from pilum.index.vector.accelerator import accelerated
from pilum.index.vector.kmeans import nearest
from pilum.indices import IndicesBuilder
from pilum.torch import distance
from pilum.torch.kmeans import KMeans

CPU = torch.device("cpu")


def _blobs(num_rows: int, count: int, dimension: int = 8) -> np.ndarray:
    random = np.random.default_rng(7)
    middles = random.normal(size=(count, dimension)) * 30
    chosen = random.integers(0, count, num_rows)
    return (middles[chosen] + random.normal(size=(num_rows, dimension))).astype(np.float32)


def _squares(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.asarray(((rows[:, None].astype(np.float64) - others[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_distances_are_those_of_numpy(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_MOST_DISTANCES", 40)  # several parts
    random = np.random.default_rng(3)
    x, y = (torch.tensor(random.normal(size=(n, 6))).to(dtype) for n in (23, 9))
    wide = [one.to(torch.float64).numpy() for one in (x, y)]
    tolerance = 2e-2 if dtype == torch.float16 else 1e-5
    squares = _squares(*wide)
    np.testing.assert_allclose(distance.pairwise_l2(x, y), squares, rtol=tolerance, atol=tolerance)
    numbers, found = distance.l2_distance(x, y)
    assert np.allclose(found, squares.min(axis=1), rtol=tolerance, atol=tolerance)
    near = squares[np.arange(23), numbers.numpy()]
    assert np.allclose(near, squares.min(axis=1), rtol=tolerance, atol=tolerance)
    if dtype == torch.float16:
        return
    lengths = [np.linalg.norm(one, axis=1) for one in wide]
    cosines = 1 - wide[0] @ wide[1].T / np.outer(*lengths)
    np.testing.assert_allclose(distance.pairwise_cosine(x, y), cosines, atol=1e-5)
    for function, expected in (
        (distance.cosine_distance, cosines),
        (distance.dot_distance, 1 - wide[0] @ wide[1].T),
    ):
        numbers, found = function(x, y)
        assert numbers.tolist() == expected.argmin(axis=1).tolist()
        np.testing.assert_allclose(found, expected.min(axis=1), atol=1e-5)


def test_vectors_with_nan_have_no_centroid() -> None:
    x = torch.tensor([[1.0, 2.0], [float("nan"), 0.0]])
    for function in (distance.l2_distance, distance.dot_distance, distance.cosine_distance):
        assert function(x, x[:1])[0].tolist() == [0, -1]


def test_other_shapes_and_types_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be 2-D"):
        distance.l2_distance(torch.ones(3), torch.ones(2, 3))
    with pytest.raises(InvalidInputError, match="data types do not match"):
        distance.pairwise_l2(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("form", ["numpy", "arrow", "tensor", "dataset", "dicts"])
def test_blobs_are_found(form: str) -> None:
    rows = _blobs(600, 6)
    flat = pa.array(rows.ravel())
    tensor = torch.tensor(rows)
    data = {
        "numpy": rows,
        "arrow": pa.FixedSizeListArray.from_arrays(flat, rows.shape[1]),
        "tensor": tensor,
        "dataset": list(tensor.split(100)),
        "dicts": [{"v": part} for part in tensor.split(100)],
    }[form]
    chosen = [0]
    for _ in range(5):  # one row of each blob
        chosen.append(int(_squares(rows, rows[chosen]).min(axis=1).argmax()))
    model = KMeans(6, device="cpu", centroids=tensor[torch.tensor(chosen)])
    model.fit(data, "v" if form == "dicts" else None)
    assert model.centroids is not None
    squares = _squares(rows, model.centroids.numpy())
    assert squares.min(axis=1).sum() < 1.2 * rows.size  # the variance within blobs is 1
    assert model.transform(tensor).tolist() == squares.argmin(axis=1).tolist()


def test_random_vectors_are_the_first_centroids() -> None:
    rows = _blobs(300, 5)
    models = [KMeans(5, seed=seed, max_iters=0, device="cpu") for seed in (1, 1, 2)]
    for model in models:
        model.fit(rows)
    one, same, other = (model.centroids for model in models)
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert _squares(rows, one.numpy()).min(axis=0).tolist() == [0] * 5


def test_cosine_has_centroids_of_length_one() -> None:
    model = KMeans(4, metric="cosine", seed=1, device="cpu")
    model.fit(_blobs(300, 4))
    assert model.centroids is not None
    assert torch.allclose(torch.linalg.norm(model.centroids, dim=1), torch.ones(4), atol=1e-5)


def test_empty_clusters_begin_again() -> None:
    rows = torch.tensor(_blobs(300, 3))
    first = torch.cat([rows[:2], torch.full((1, 8), 1e6)])
    model = KMeans(3, centroids=first, seed=1, device="cpu")
    model.fit(rows)
    assert sorted(set(model.transform(rows).tolist())) == [0, 1, 2]


def test_wrong_arguments_are_refused() -> None:
    for make, text in (
        (lambda: KMeans(2, metric="hamming"), "Only l2/cosine/dot"),
        (lambda: KMeans(0), "k: "),
        (lambda: KMeans(2, device="cpu").fit(np.ones((1, 2), np.float32)), "1 vectors for 2"),
        (lambda: KMeans(2, device="cpu").fit([torch.ones(2, 2)]), "first centroids"),
        (lambda: KMeans(2, device="cpu").transform(np.ones((1, 2))), "call fit"),
        (lambda: accelerated("gpu"), "expected 'cuda'"),
        (lambda: accelerated(3), "a torch.device"),
        (lambda: accelerated("cuda:77"), "PyTorch cannot use it"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            make()


def test_a_device_finds_what_the_kernel_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_MOST_DISTANCES", 70)  # several parts
    rows = _blobs(50, 5)
    numbers, distances = accelerated(CPU)(rows, rows[:7])
    expected = nearest(rows, rows[:7])
    assert np.array_equal(numbers, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-3, atol=1e-2)


def test_indices_are_trained_by_a_device(tmp_path: Path) -> None:
    rows = _blobs(1200, 8)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    dataset.create_index(
        "v", "IVF_PQ", num_partitions=4, num_sub_vectors=4, num_bits=4, accelerator=CPU
    )
    found = dataset.to_table(
        nearest={"column": "v", "q": rows[5], "k": 5, "nprobes": 4, "refine_factor": 20}
    )
    assert found["_distance"][0].as_py() == 0
    builder = IndicesBuilder(dataset, "v")
    models = [builder.train_ivf(4, accelerator=one) for one in (None, CPU)]
    losses = [
        _squares(rows, np.array(one.centroids.to_pylist())).min(axis=1).sum() for one in models
    ]
    assert losses[1] < 1.1 * losses[0]
    uris = [builder.assign_ivf_partitions(models[0], accelerator=one) for one in (None, CPU)]
    tables = [pilum.dataset(uri).to_table() for uri in uris]
    assert tables[0] == tables[1]
    of_dot = builder.train_ivf(4, distance_type="dot", accelerator=CPU)
    with pytest.raises(UnsupportedFeatureError, match="metric dot"):
        builder.assign_ivf_partitions(of_dot, accelerator=CPU)
