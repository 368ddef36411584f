"""`IndicesBuilder`: models of vector indices, trained apart from the index, and builds in steps.

train_ivf, train_pq ──▶ create_index_uncommitted, with these models, in several processes
                    ──▶ transform_vectors ──▶ shuffle_transformed_vectors ──▶ load_…
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.arguments import optional_count, require_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.index_builds import create_of_files
from pilum.dataset.lance_dataset import write_dataset
from pilum.dataset.staged_vectors import write_sorted, write_transformed
from pilum.dataset.vector_arguments import vector_keywords
from pilum.dataset.vector_models import IvfModel, PqModel
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.index.base import REFERENCE, VALUE, IndexRows, References
from pilum.index.vector.accelerator import accelerated
from pilum.index.vector.ivf import IvfModel as Centroids
from pilum.index.vector.kmeans import Nearest
from pilum.index.vector.messages import PQ, Compression
from pilum.index.vector.metrics import Metric
from pilum.index.vector.parameters import VectorParameters, given_centroids
from pilum.index.vector.training import indexed_vectors, train_centroids, train_codebook
from pilum.index.vector.vectors import Matrix, VectorType, vector_column
from pilum.table.indices.build import ignore_rows
from pilum.table.indices.rows import existing_fragments, index_rows, indexed_column

__all__ = ["IndicesBuilder"]

_FEWEST_ROWS = 2

_ASSIGNED = pa.schema([("row_id", pa.uint64()), ("partition", pa.uint32())])


class IndicesBuilder:
    """Trains the models of an index of one column, and builds IVF_PQ indices in steps.

    Args:
        dataset: The table.
        column: Name of the column of vectors.
    """

    def __init__(self, dataset: DatasetBase, column: str) -> None:
        """Check the column.

        Raises:
            ColumnNotFoundError: If it does not exist.
            UnsupportedTypeError: If it has no vectors.
        """
        self.dataset = dataset
        self._column = indexed_column(dataset.snapshot, column)
        self._vectors = VectorType.of(column, self._column.arrow.type)

    @property
    def dimension(self) -> int:
        """The number of elements of a vector."""
        return self._vectors.dimension

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: Collection[int] | None = None,
    ) -> IvfModel:
        """Train the centroids of partitions.

        Args:
            num_partitions: Number of partitions; None for the square root of the number of rows.
            distance_type: "l2", "cosine", "dot" or "hamming".
            accelerator: "cuda", "cuda:0", … or "mps", or a `torch.device`, that finds the nearest
                centroids; None for processors.
            sample_rate: Number of rows per centroid that are sampled.
            max_iters: Maximum number of iterations.
            fragment_ids: Fragments whose rows are sampled; None for all.

        Raises:
            InvalidInputError: If an argument is invalid, or there are too few rows.
            MissingDependencyError: If an accelerator is requested, but PyTorch is not installed.
        """
        find = _finder(accelerator)
        metric = Metric.named(distance_type)
        rate = require_count("sample_rate", sample_rate, _FEWEST_ROWS)
        num_rows = self._num_rows(fragment_ids)
        count = optional_count("num_partitions", num_partitions, 1)
        if count is None:
            count = max(1, round(math.sqrt(num_rows)))
        sample = self._sample(count, rate, metric, fragment_ids, "centroids")
        iterations = require_count("max_iters", max_iters, 1)
        found = train_centroids(sample, count, metric, iterations, find=find)
        return IvfModel(vector_column(found), metric.value)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Collection[int] | None = None,
    ) -> PqModel:
        """Train the codebook of a product quantizer.

        Args:
            ivf_model: The centroids of partitions.
            num_subvectors: Number of sub-vectors; None for a sixteenth of the dimension or, if it
                is not divisible by 16, an eighth.
            sample_rate: Number of rows per codeword that are sampled.
            max_iters: Maximum number of iterations.
            num_bits: Bits of a code: 8 or 4.
            fragment_ids: Fragments whose rows are sampled; None for all.

        Raises:
            InvalidInputError: If an argument is invalid, or there are too few rows.
        """
        metric = Metric.named(ivf_model.distance_type)
        if num_bits not in (4, 8):
            raise InvalidInputError(f"num_bits: expected 4 or 8, found {num_bits!r}")
        compression = Compression(PQ, num_bits, self._num_sub_vectors(num_subvectors))
        rate = require_count("sample_rate", sample_rate, _FEWEST_ROWS)
        rows = self._sample(2**num_bits, rate, metric, fragment_ids, "the codebook")
        ivf = Centroids(given_centroids(ivf_model.centroids, self._vectors), metric)
        if metric.has_residuals:
            rows = (rows - ivf.centroids[ivf.assign(rows)[0]]).astype(rows.dtype)
        iterations = require_count("max_iters", max_iters, 1)
        found = train_codebook(rows, compression.num_sub_vectors, num_bits, iterations)
        codebook = vector_column(found.reshape(-1, self.dimension))
        return PqModel(compression.num_sub_vectors, codebook, num_bits=num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Collection[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Train both models; see `train_ivf` and `train_pq`.

        Returns:
            `ivf_centroids` and `pq_codebook`, as `create_index_uncommitted` takes them.
        """
        ivf = self.train_ivf(
            num_partitions,
            distance_type=distance_type,
            accelerator=accelerator,
            sample_rate=sample_rate,
            max_iters=max_iters,
            fragment_ids=fragment_ids,
        )
        pq = self.train_pq(
            ivf,
            num_subvectors,
            sample_rate=sample_rate,
            max_iters=max_iters,
            num_bits=num_bits,
            fragment_ids=fragment_ids,
        )
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def assign_ivf_partitions(
        self, ivf_model: IvfModel, accelerator: Any = None, *, output_uri: str | None = None
    ) -> str:
        """Write the partition of each row to a new dataset.

        It has the columns `row_id`, uint64, and `partition`, uint32. `create_index` takes it as
        `precomputed_partition_dataset`, and `transform_vectors` as `partition_ds_uri`.

        Args:
            ivf_model: The centroids of partitions.
            accelerator: As for `train_ivf`, for l2 and cosine; None for processors.
            output_uri: Location of the dataset; None for a new temporary folder.

        Returns:
            The location.

        Raises:
            InvalidInputError: If the model does not fit the column.
            UnsupportedFeatureError: If an accelerator is requested for another metric.
            MissingDependencyError: If an accelerator is requested, but PyTorch is not installed.
            TableExistsError: If there is a dataset at the location.
        """
        metric, find = Metric.named(ivf_model.distance_type), _finder(accelerator)
        self._require(metric)
        if find is not None and metric not in (Metric.L2, Metric.COSINE):
            raise UnsupportedFeatureError(
                f"accelerator={accelerator!r} for the metric {metric.value}; omit it"
            )
        ivf = Centroids(given_centroids(ivf_model.centroids, self._vectors), metric)
        uri = output_uri or f"{tempfile.mkdtemp(prefix='pilum-partitions-')}/partitions.lance"
        batches = (self._assigned(batch, ivf, find) for batch in self._rows(None).batches)
        reader, options = pa.RecordBatchReader.from_batches(_ASSIGNED, batches), self._options
        write_dataset(reader, uri, storage_options=options)
        return uri

    def transform_vectors(
        self,
        ivf: IvfModel,
        pq: PqModel,
        dest_uri: str,
        fragments: Sequence[LanceFragment] | None = None,
        partition_ds_uri: str | None = None,
    ) -> None:
        """Write the partitions and the codes of rows to a file, for `shuffle_transformed_vectors`.

        Args:
            ivf: The centroids of partitions.
            pq: The codebook.
            dest_uri: Location of the file, which has the columns `_rowid`, `__ivf_part_id` and
                `__pq_code`.
            fragments: The fragments whose rows are transformed; None for all.
            partition_ds_uri: Location of a dataset of `assign_ivf_partitions`, whose partitions are
                taken; None to find them.

        Raises:
            InvalidInputError: If an argument is invalid, or a model does not fit the column.
        """
        if fragments is not None and not len(fragments):
            raise InvalidInputError("fragments must be a non-empty list or None")
        parameters = self._parameters(ivf, pq, partition_ds_uri)
        numbers = None if fragments is None else [one.fragment_id for one in fragments]
        rows, covered = self._rows(numbers), self._fragments(numbers)
        write_transformed(rows, covered, parameters, dest_uri, self._options)

    def shuffle_transformed_vectors(
        self,
        unsorted_filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        shuffle_output_root_filename: str | None = "sorted",
    ) -> list[str]:
        """Sort the rows of files by partition, for `load_shuffled_vectors`.

        Rows that do not fit into 256 MiB go to a temporary file.

        Args:
            unsorted_filenames: Names of files that `transform_vectors` wrote.
            dir_path: Folder of these files, and of the new file.
            ivf: The centroids of partitions.
            shuffle_output_root_filename: Beginning of the name of the new file; "sorted" if None.

        Returns:
            The names of the new files, which are one: `{shuffle_output_root_filename}_0.lance`.

        Raises:
            InvalidInputError: If a file is not one of `transform_vectors`.
            NotFoundError: If a file does not exist.
            CorruptFileError: If a file is damaged.
        """
        name = f"{shuffle_output_root_filename or 'sorted'}_0.lance"
        paths = _paths(unsorted_filenames, dir_path)
        write_sorted(paths, ivf.num_partitions, _path(dir_path, name), self._options)
        return [name]

    def load_shuffled_vectors(
        self,
        filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        pq: PqModel,
        index_name: str | None = None,
    ) -> None:
        """Commit an IVF_PQ index of the rows of files, and move the dataset to the new version.

        The index covers the fragments that contain these rows. If rows were updated in between, and
        keep their ids, the fragments that they moved to are not covered.

        Args:
            filenames: Names of files that `shuffle_transformed_vectors` wrote.
            dir_path: Their folder.
            ivf: The centroids of partitions.
            pq: The codebook.
            index_name: Name of the index; "{column}_idx" if None.

        Raises:
            InvalidInputError: If a file is not one of `shuffle_transformed_vectors`, or has rows
                that the table does not have.
            IndexAlreadyExistsError: If there is an index of this name.
            NotFoundError: If a file does not exist.
            CorruptFileError: If a file is damaged.
        """
        paths = _paths(filenames, dir_path)
        keywords = self._keywords(ivf, pq, None)
        create_of_files(self.dataset, self._column.name, index_name, keywords, paths)

    def _assigned(
        self, batch: pa.RecordBatch, ivf: Centroids, find: Nearest | None
    ) -> pa.RecordBatch:
        """Return the partitions of those rows of a batch that an index contains."""
        vectors, rows = indexed_vectors(batch.column(VALUE), self._vectors, ivf.metric)
        references = batch.column(REFERENCE).to_numpy()
        if rows is not None:
            references = references[rows]
        if find is None:
            partitions, _ = ivf.assign(vectors)
        else:
            partitions, _ = find(vectors.astype(np.float32), ivf.wide)
        columns = [pa.array(references), pa.array(partitions)]
        return pa.RecordBatch.from_arrays(columns, schema=_ASSIGNED)

    @property
    def _options(self) -> dict[str, str]:
        """The storage options of the table, with which the files of the steps are opened."""
        return self.dataset.snapshot.store.options

    def _keywords(self, ivf: IvfModel, pq: PqModel, assigned: str | None) -> Mapping[str, Any]:
        given = {
            "num_sub_vectors": pq.num_subvectors,
            "num_bits": pq.num_bits,
            "ivf_centroids": ivf.centroids,
            "pq_codebook": pq.codebook,
            "precomputed_partition_dataset": assigned,
            "storage_options": self._options,
        }
        return vector_keywords(given, ivf.distance_type)

    def _parameters(self, ivf: IvfModel, pq: PqModel, assigned: str | None) -> VectorParameters:
        given = self._keywords(ivf, pq, assigned)
        return VectorParameters.from_keywords(PQ, False, given, self._column.arrow.type)

    def _rows(self, fragment_ids: Collection[int] | None) -> IndexRows:
        """Return the rows of fragments, which are identified by their ids."""
        fragments = self._fragments(fragment_ids)
        snapshot = self.dataset.snapshot
        return index_rows(snapshot, self._column, References.ROW_IDS, fragments, ignore_rows)

    def _num_sub_vectors(self, given: int | None) -> int:
        dimension = self.dimension
        count = optional_count("num_subvectors", given, 1)
        if count is None:
            divisor = 16 if dimension % 16 == 0 else 8
            count = dimension // divisor if dimension % divisor == 0 else None
        if count is None or dimension % count:
            raise InvalidInputError(
                f"num_subvectors: {given}; the dimension ({dimension}) must be divisible by it, "
                "and by 8 if it is None"
            )
        return count

    def _fragments(self, fragment_ids: Collection[int] | None) -> BitMap:
        existing = existing_fragments(self.dataset.snapshot)
        if fragment_ids is None:
            return existing
        wanted = BitMap([require_count("fragment_ids", number) for number in fragment_ids])
        if missing := wanted - existing:
            raise InvalidInputError(f"fragment_ids: the table has no fragments {list(missing)}")
        return wanted

    def _num_rows(self, fragment_ids: Collection[int] | None) -> int:
        wanted = self._fragments(fragment_ids)
        fragments = self.dataset.snapshot.manifest.fragments
        return sum(one.num_rows for one in fragments if one.id in wanted)

    def _sample(
        self,
        count: int,
        sample_rate: int,
        metric: Metric,
        fragment_ids: Collection[int] | None,
        what: str,
    ) -> Matrix:
        """Return as many rows as a training needs.

        Raises:
            InvalidInputError: If there are fewer, or their type does not have the metric.
        """
        self._require(metric)
        num_rows, wanted = self._num_rows(fragment_ids), count * sample_rate
        if num_rows < wanted:
            raise InvalidInputError(
                f"There are not enough rows in the dataset to train {what}: {count} of them with a "
                f"sample rate of {sample_rate} need {wanted} rows, and there are {num_rows}"
            )
        rows = index_rows(
            self.dataset.snapshot,
            self._column,
            References.ADDRESSES,
            self._fragments(fragment_ids),
            ignore_rows,
        )
        found, _ = indexed_vectors(rows.sample(wanted), self._vectors, metric)
        if len(found) < count:
            raise InvalidInputError(f"{len(found)} vectors to train {count} of {what}")
        return found

    def _require(self, metric: Metric) -> None:
        """Raise InvalidInputError if vectors of the column do not have a metric."""
        if self._vectors.is_binary != (metric is Metric.HAMMING) or self._vectors.dtype == np.int8:
            raise InvalidInputError(f"metric {metric.value!r} for vectors of {self._vectors.dtype}")


def _finder(accelerator: Any) -> Nearest | None:
    return None if accelerator is None else accelerated(accelerator)


def _paths(names: Any, folder: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError("filenames must be a list of strings")
    return [_path(folder, name) for name in names]


def _path(folder: str, name: str) -> str:
    return f"{str(folder).rstrip('/')}/{name}"
