"""Builds of IVF_PQ indices in steps, which may run in different processes.

    transform   rows of fragments ──▶ _rowid, __ivf_part_id, __pq_code        a file
    shuffle     several files     ──▶ the same columns, sorted by partition   a file
    load        sorted files      ──▶ the files of a segment

All are Lance files. Their metadata have `_loss`, the sum of the distances between the vectors and
their centroids, and `_fragments`, the fragments whose rows they are: 0,1,2. Files of the reference
do not have the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.file import LanceFileReader
from pilum.format.rows import Addresses
from pilum.format.version import FileVersion
from pilum.index.base import IndexRows
from pilum.index.files import IndexFileWriter, IndexFolderWriter
from pilum.index.vector.building import Encoded, Models, encoded, write_encoded
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.parameters import VectorParameters
from pilum.index.vector.product import COLUMN, ProductQuantizer
from pilum.index.vector.shuffle import Shuffle
from pilum.index.vector.vectors import matrix, vector_column
from pilum.storage.open import open_object

__all__ = [
    "PARTITION_COLUMN",
    "fragments_of_files",
    "load_sorted",
    "rows_of_files",
    "write_sorted",
    "write_transformed",
]

PARTITION_COLUMN = "__ivf_part_id"
"""The column of the partitions of rows."""
_ROW, _PARTITION = "_rowid", PARTITION_COLUMN
_LOSS, _FRAGMENTS = "_loss", "_fragments"
_BATCH_ROWS = 65536
_LIMIT_BYTES = 256 << 20


def write_transformed(
    rows: IndexRows,
    fragments: BitMap,
    parameters: VectorParameters,
    path: str,
    options: Mapping[str, str],
) -> None:
    """Write the partitions and the codes of rows to a file.

    Args:
        rows: The rows.
        fragments: The fragments that they are all rows of.
        parameters: Parameters of the index, with its models.
        path: Location of the file.
        options: Options of its object store.

    Raises:
        InvalidInputError: If a given partition does not exist.
    """
    loss = 0.0
    with _new_file(path, options, _code_bytes(parameters)) as file:
        for batch in encoded(rows.batches, parameters, _models(parameters)):
            file.write(_batch(batch.references, batch.partitions, batch.columns[COLUMN]))
            loss += batch.loss
        file.add_metadata({_LOSS: repr(loss), **_listed(fragments)})


def write_sorted(
    paths: Sequence[str], num_partitions: int, path: str, options: Mapping[str, str]
) -> None:
    """Write the rows of files to one file, sorted by partition.

    Args:
        paths: Locations of files that `write_transformed` wrote.
        num_partitions: Number of partitions.
        path: Location of the new file.
        options: Options of the object store of all of them.

    Raises:
        InvalidInputError: If a file has other columns, or the files differ in their codes.
        CorruptFileError: If a file is damaged.
    """
    width, loss = 0, 0.0
    with Shuffle(num_partitions, _LIMIT_BYTES) as shuffle:
        for batch in rows_of_files(paths, options, num_partitions):
            codes = batch.columns[COLUMN]
            if width not in (0, codes.shape[1]):
                raise InvalidInputError(f"files with codes of {width} and {codes.shape[1]} bytes")
            width = codes.shape[1]
            shuffle.add(batch.partitions, batch.references, batch.columns)
            loss += batch.loss
        with _new_file(path, options, width or 1) as file:
            for number, (references, columns) in enumerate(shuffle.partitions()):
                if len(references):
                    partitions = np.full(len(references), number, np.uint32)
                    file.write(_batch(references, partitions, columns[COLUMN]))
            fragments = fragments_of_files(paths, options)
            file.add_metadata({_LOSS: repr(loss), **_listed(fragments)})


def load_sorted(
    paths: Sequence[str],
    options: Mapping[str, str],
    parameters: VectorParameters,
    folder: IndexFolderWriter,
) -> bytes:
    """Write the rows of files as a segment.

    Args:
        paths: Locations of files that `write_sorted` wrote.
        options: Options of their object store.
        parameters: Parameters of the index, with its models.
        folder: The folder of the segment.

    Returns:
        The details of the index.

    Raises:
        InvalidInputError: If a file has other columns, or does not fit the models.
        CorruptFileError: If a file is damaged.
    """
    models = _models(parameters)
    rows = rows_of_files(paths, options, models.ivf.num_partitions, _code_bytes(parameters))
    write_encoded(rows, parameters, models, folder)
    return parameters.details().pack()


def rows_of_files(
    paths: Sequence[str],
    options: Mapping[str, str],
    num_partitions: int,
    code_bytes: int | None = None,
) -> Iterator[Encoded]:
    """Yield the rows of files.

    Args:
        paths: Locations of files.
        options: Options of their object store.
        num_partitions: The number that partitions are below.
        code_bytes: Size of a code; None for any.

    Raises:
        InvalidInputError: If a file has other columns or partitions.
        CorruptFileError: If a file is damaged.
    """
    for path in paths:
        file = LanceFileReader(path, storage_options=dict(options))
        reader = file.read_all(batch_size=_BATCH_ROWS).to_batches()
        _require_columns(path, reader.schema, code_bytes)
        loss = _loss_of(path, reader.schema)
        for batch in reader:
            references, partitions = (_numbers(path, batch, name) for name in (_ROW, _PARTITION))
            if len(partitions) and int(partitions.max()) >= num_partitions:
                raise InvalidInputError(
                    f"{path}: partition {int(partitions.max())}; the model has {num_partitions}"
                )
            codes, valid = matrix(batch.column(COLUMN))
            if valid is not None and not valid.all():
                raise InvalidInputError(f"{path}: column {COLUMN!r} has nulls")
            own = {COLUMN: np.ascontiguousarray(codes)}
            yield Encoded(references.astype(np.uint64), partitions.astype(np.uint32), own, loss)
            loss = 0.0  # of all batches of the file


def fragments_of_files(paths: Sequence[str], options: Mapping[str, str]) -> BitMap | None:
    """Return the fragments whose rows are in files; None if a file does not say.

    The arguments are those of `rows_of_files`.

    Raises:
        InvalidInputError: If what a file says are no fragments.
        CorruptFileError: If a file is damaged.
    """
    found = BitMap()
    for path in paths:
        file = LanceFileReader(path, storage_options=dict(options))
        text = (file.metadata().schema.metadata or {}).get(_FRAGMENTS.encode())
        if text is None:
            return None
        try:
            found |= BitMap(int(number) for number in text.split(b",") if number)
        except (ValueError, OverflowError):
            raise InvalidInputError(f"{path}: {_FRAGMENTS} is {text[:80]!r}") from None
    return found


def _listed(fragments: BitMap | None) -> dict[str, str]:
    return {} if fragments is None else {_FRAGMENTS: ",".join(map(str, fragments))}


def _models(parameters: VectorParameters) -> Models:
    assert parameters.centroids is not None
    assert parameters.codebook is not None
    metric = parameters.metric
    ivf = IvfModel(parameters.centroids, metric)
    is_transposed = not parameters.is_plain
    return Models(ivf, ProductQuantizer(parameters.codebook, metric, is_transposed=is_transposed))


def _code_bytes(parameters: VectorParameters) -> int:
    compression = parameters.compression
    return compression.num_sub_vectors * compression.num_bits // 8


def _new_file(path: str, options: Mapping[str, str], code_bytes: int) -> IndexFileWriter:
    store, name = open_object(path, options)
    return IndexFolderWriter(store, "", FileVersion.V2_1).file(name, _schema(code_bytes))


def _schema(code_bytes: int) -> pa.Schema:
    codes = pa.field(COLUMN, pa.list_(pa.uint8(), code_bytes), nullable=False)
    return pa.schema([(_ROW, pa.uint64()), (_PARTITION, pa.uint32()), codes])


def _batch(
    references: Addresses, partitions: NDArray[np.uint32], codes: NDArray[np.uint8]
) -> pa.RecordBatch:
    columns = [pa.array(references), pa.array(partitions), vector_column(codes)]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(codes.shape[1]))


def _require_columns(path: str, schema: pa.Schema, code_bytes: int | None) -> None:
    if missing := {_ROW, _PARTITION, COLUMN}.difference(schema.names):
        raise InvalidInputError(
            f"{path}: no columns {sorted(missing)}; expected a file that transform_vectors or "
            "shuffle_transformed_vectors wrote"
        )
    codes = schema.field(COLUMN).type
    is_code = pt.is_fixed_size_list(codes) and codes.value_type == pa.uint8()
    if not is_code or code_bytes not in (None, codes.list_size):
        size = "any number of" if code_bytes is None else code_bytes
        raise InvalidInputError(f"{path}: codes of type {codes}; the model has {size} bytes")


def _numbers(path: str, batch: pa.RecordBatch, name: str) -> NDArray[np.integer]:
    column = batch.column(name)
    if not pt.is_unsigned_integer(column.type) or column.null_count:
        raise InvalidInputError(
            f"{path}: column {name!r} of type {column.type}; expected integers without nulls"
        )
    return np.asarray(column.to_numpy())


def _loss_of(path: str, schema: pa.Schema) -> float:
    text = (schema.metadata or {}).get(_LOSS.encode(), b"nan")
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{path}: {_LOSS} is {text!r}, not a number") from None
