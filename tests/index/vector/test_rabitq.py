"""RaBitQ codes (RQ) of an index: what the reference wrote, and what is stored for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Probe, Search
from pilum.index.vector.rabitq import Rabitq
from pilum.index.vector.rotation import MatrixRotation
from pilum.index.vector.vectors import normalized

FAST = {
    "rotate_mat_position": None,
    "fast_rotation_signs": [37] * 8,
    "rotation_type": "fast",
    "code_dim": 16,
    "num_bits": 5,
    "packed": True,
    "query_estimator": "raw_query",
}


def _no_buffer(number: int) -> bytes:
    raise AssertionError(number)


def _normal(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    column = table[name].combine_chunks()
    if isinstance(column.type, pa.FixedSizeListType):
        return np.asarray(column.values.to_numpy()).reshape(-1, column.type.list_size)
    return np.asarray(column.to_numpy())


class Reference:
    """An index of the reference with two partitions, and its stored columns."""

    def __init__(
        self, path: Path, metric: str, bits: int, dimension: int, shift: float = 0, **given: Any
    ) -> None:
        self.vectors = _normal(1, 300, dimension) + np.float32(shift)
        values = pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), dimension)
        self.dataset = lance.write_dataset(pa.table({"v": values}), path)
        given |= {"num_partitions": 2, "num_bits": bits}
        self.dataset.create_index("v", "IVF_RQ", metric=metric, **given)
        [entry] = self.dataset.list_indices()
        file = LanceFileReader(str(path / "_indices" / entry["uuid"] / "auxiliary.idx"))
        self.table = file.read_all().to_table()
        metadata = file.metadata().schema.metadata
        [text] = json.loads(metadata[b"storage_metadata"])
        self.metadata = json.loads(text)
        self.metric = Metric.named(metric)
        self.rq = Rabitq.parse(self.metadata, _no_buffer, self.metric, "a file")
        [found] = self.dataset.stats.index_stats("v_idx")["indices"]
        self.centroids = np.array(found["centroids"], np.float32)
        self.sizes = [part["size"] for part in found["partitions"]]

    def probes(self) -> list[Probe]:
        """Return all partitions."""
        rows = self.table["_rowid"].to_numpy()
        columns = {name: _column(self.table, name) for name in self.table.column_names[1:]}
        found, first = [], 0
        for number, size in enumerate(self.sizes):
            own = slice(first, first + size)
            stored = {name: values[own] for name, values in columns.items()}
            found.append(Probe(number, rows[own], stored, self.centroids[number]))
            first += size
        return found


@pytest.mark.parametrize(
    ("metric", "bits", "dimension"),
    [("l2", 5, 64), ("cosine", 3, 72), ("dot", 1, 64), ("dot", 9, 24), ("l2", 7, 40)],
)
def test_indices_of_the_reference_are_read_and_made(
    tmp_path: Path, metric: str, bits: int, dimension: int
) -> None:
    made = Reference(tmp_path / "table", metric, bits, dimension)
    rq, probes = made.rq, made.probes()
    assert rq.statistics() == made.metadata
    assert [field.name for field in rq.fields] == made.table.column_names[1:]
    vectors = made.vectors
    if metric == "cosine":
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for probe in probes:
        partitions = np.full(len(probe.rows), probe.number, np.uint32)
        own = vectors[probe.rows.astype(np.int64)]
        codes = rq.encode(own, partitions, made.centroids)
        stored = rq.arranged(codes)
        np.testing.assert_array_equal(stored["_rabit_codes"], probe.columns["_rabit_codes"])
        for name in ("__add_factors", "__scale_factors", "__error_factors"):
            np.testing.assert_allclose(stored[name], probe.columns[name], rtol=1e-3, atol=1e-4)
        decoded = rq.decoded(rq.plain(probe.columns), partitions, made.centroids)
        ours = rq.decoded(codes, partitions, made.centroids)
        gap = np.linalg.norm(decoded - own, axis=1).mean()
        assert np.linalg.norm(ours - own, axis=1).mean() <= 1.1 * gap + 1e-4
    query = _normal(5, dimension)
    nearest = {"column": "v", "q": query, "k": 20, "nprobes": 2, "approx_mode": "accurate"}
    found = made.dataset.scanner(with_row_id=True, nearest=nearest).to_table()
    if metric == "cosine":
        query = query / np.linalg.norm(query)
    _, rows, distances = rq.nearest(probes, Search(query[np.newaxis], 300))
    theirs = found["_rowid"].to_pylist()
    assert len(set(rows[:20].tolist()) & set(theirs)) >= 18
    estimates = dict(zip(rows.tolist(), distances.tolist(), strict=True))
    gaps = [
        abs(estimates[row] - one.as_py())
        for row, one in zip(theirs, found["_distance"], strict=True)
    ]
    spread = max(estimates.values()) - min(estimates.values())
    assert np.mean(gaps) <= spread * 0.01


@pytest.mark.parametrize("bits", [1, 2, 5])
@pytest.mark.parametrize("length", [None, 0.5, 2.0])
def test_products_are_estimated_as_by_the_reference(
    tmp_path: Path, bits: int, length: float | None
) -> None:
    given: dict[str, Any] = {}
    if length is not None:
        centroids = _normal(2, 2, 32)
        given["ivf_centroids"] = length * normalized(centroids)
    made = Reference(tmp_path / "table", "dot", bits, 32, shift=0.5, **given)
    for query in _normal(5, 4, 32) + np.float32(0.3):
        nearest = {"column": "v", "q": query, "k": 300, "nprobes": 2, "approx_mode": "accurate"}
        found = made.dataset.to_table(columns=["_rowid", "_distance"], nearest=nearest)
        theirs = dict(zip(found["_rowid"].to_pylist(), found["_distance"].to_pylist(), strict=True))
        _, rows, distances = made.rq.nearest(made.probes(), Search(query[np.newaxis], 300))
        expected = [theirs[row] for row in rows.tolist()]
        np.testing.assert_allclose(distances, expected, atol=0.01)


@pytest.mark.parametrize("bits", [1, 5])
@pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT])
def test_matrices_rotate_too(metric: Metric, bits: int) -> None:
    matrix, _ = np.linalg.qr(_normal(2, 16, 16))
    rq = Rabitq(MatrixRotation(matrix, 16), metric, bits, is_packed=False)
    buffers: list[bytes] = []
    text = rq.metadata(lambda data: buffers.append(data) or 7)  # type: ignore[func-returns-value]
    again = Rabitq.parse(json.loads(text), lambda number: buffers[number - 7], metric, "a file")
    assert again.has_model_of(rq)
    vectors, centroids = _normal(3, 50, 16), _normal(4, 2, 16)
    partitions = (np.arange(50) % 2).astype(np.uint32)
    codes = again.encode(vectors, partitions, centroids)
    decoded = again.decoded(codes, partitions, centroids)
    cosine = (decoded * vectors).sum() / np.linalg.norm(decoded) / np.linalg.norm(vectors)
    assert cosine > (0.6 if bits == 1 else 0.99)


@pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT])
def test_the_older_layout_gives_the_estimates_of_the_newer_one(metric: Metric) -> None:
    older = {**FAST, "num_bits": 1, "query_estimator": None, "packed": False}
    centroid, vectors, query = _normal(4, 1, 16), _normal(3, 40, 16), _normal(5, 1, 16)
    if metric is Metric.DOT:  # the newer one weighs the part along the centroid, here by 1
        query += (1 - (query @ centroid[0]) / (centroid[0] @ centroid[0])) * centroid
    found = []
    for metadata in (older, {**older, "query_estimator": "raw_query"}):
        rq = Rabitq.parse(metadata, _no_buffer, metric, "a file")
        columns = rq.encode(vectors, np.zeros(40, np.uint32), centroid)
        probe = Probe(0, np.arange(40, dtype=np.uint64), columns, centroid[0])
        found.append(rq.nearest([probe], Search(query, 40)))
        assert set(columns) == {field.name for field in rq.fields}
    (_, rows, distances), (_, other_rows, other) = found
    np.testing.assert_allclose(
        distances[np.argsort(rows)], other[np.argsort(other_rows)], rtol=1e-4, atol=1e-3
    )


def test_models_are_shared_by_segments() -> None:
    model = Rabitq.new(16, Metric.L2, 5).model()
    assert list(json.loads(model)) == list(FAST)
    assert json.loads(model)["packed"] is False
    first, second = (Rabitq.of_model(model, Metric.L2) for _ in range(2))
    assert first.has_model_of(second)
    assert not first.has_model_of(Rabitq.new(16, Metric.L2, 5))
    assert not first.has_model_of(Rabitq.of_model(model, Metric.DOT))


@pytest.mark.parametrize(
    ("dimension", "metric", "bits"),
    [(12, Metric.L2, 5), (16, Metric.L2, 10), (16, Metric.L2, 0), (16, Metric.HAMMING, 5)],
)
def test_what_cannot_be_stored_is_refused(dimension: int, metric: Metric, bits: int) -> None:
    with pytest.raises(InvalidInputError, match="RQ"):
        Rabitq.new(dimension, metric, bits)


@pytest.mark.parametrize(
    "model", ["", "[]", "{}", '{"num_bits":1}', json.dumps({**FAST, "code_dim": 24})]
)
def test_invalid_models_are_refused(model: str) -> None:
    with pytest.raises(InvalidInputError, match="RQ model"):
        Rabitq.of_model(model, Metric.L2)


@pytest.mark.parametrize(
    "change",
    [
        {"query_estimator": "new_query"},
        {"rotation_type": "givens"},
        {"ex_code_layout": "layered"},
        {"query_estimator": "residual_query"},
    ],
)
def test_unknown_layouts_are_refused_by_name(change: dict[str, str]) -> None:
    name = next(iter(change.values())).partition("_query")[0]
    with pytest.raises(UnsupportedFeatureError, match="residuals" if name == "residual" else name):
        Rabitq.parse({**FAST, **change}, _no_buffer, Metric.L2, "a file")


@pytest.mark.parametrize(
    "change",
    [
        {"num_bits": 0},
        {"num_bits": "5"},
        {"code_dim": 12},
        {"code_dim": None},
        {"fast_rotation_signs": [1]},
        {"fast_rotation_signs": [300] * 8},
        {"fast_rotation_signs": None},
    ],
)
def test_damaged_metadata_is_reported(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError):
        Rabitq.parse({**FAST, **change}, _no_buffer, Metric.L2, "a file")
