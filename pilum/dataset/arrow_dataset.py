"""A table as `pyarrow.dataset.Dataset`, for engines that recognise such datasets.

    caller                                     what is read
    Python: DuckDB, polars, Ray Data           a scan: columns, filter and limit are pushed down
    C++: acero, joins of Arrow, DataFusion     fragments, each as an Arrow file that is made in
                                               memory when it is opened, with all of its columns

Arrow's datasets are objects of C++, and engines may pass over their Python methods. So the C++ side
is sound too: a dataset of Arrow files, one per fragment, of a file system that this module
implements. Filters that a scan of the table cannot evaluate are left to Arrow in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from pilum.dataset.scanner import LanceScanner
from pilum.errors import DatasetNotFoundError, FilterError, UnsupportedFeatureError

__all__ = ["ArrowDataset", "ScannedTable"]


class ScannedTable(Protocol):
    """Methods of a table that engines need."""

    @property
    def scanner(self) -> Callable[..., LanceScanner]:
        """Create a scanner."""

    @property
    def take(self) -> Callable[..., pa.Table]:
        """Read rows by their numbers."""

    def get_fragments(self) -> Sequence[Any]:
        """Return the fragments."""

    def get_fragment(self, fragment_id: int) -> Any | None:
        """Return a fragment; None if there is none of that id."""


class ArrowDataset(pyarrow.dataset.FileSystemDataset):  # type: ignore[misc]
    """A version of a table for engines that read datasets of pyarrow.

    Args:
        dataset: The table.
        options: Arguments of `LanceDataset.scanner` for all scans, such as `with_row_id`.
        filter: Expression that all returned rows match; all rows if None.
    """

    def __init__(
        self,
        dataset: ScannedTable,
        options: Mapping[str, Any] | None = None,
        filter: pa.compute.Expression | None = None,
    ) -> None:
        self._table = dataset
        self._options = dict(options or {})
        self._filter = filter
        form = pyarrow.dataset.IpcFileFormat()
        files = PyFileSystem(_FragmentFiles(dataset, self._options))
        pieces = [
            form.make_fragment(str(fragment.fragment_id), files)
            for fragment in dataset.get_fragments()
        ]
        schema = dataset.scanner(**self._options).projected_schema
        super().__init__(pieces, schema, form, files)
        if filter is not None:
            self._scan_options = {"filter": filter}  # joins, sorts and other readers in C++ obey it

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what rebuilds the dataset in another process."""
        return type(self), (self._table, self._options, self._filter)

    def filter(self, expression: pa.compute.Expression) -> ArrowDataset:
        """Return the dataset of the rows that also match an expression."""
        return type(self)(self._table, self._options, self._matching(expression))

    def scanner(self, columns: Any = None, filter: Any = None, **hints: Any) -> Any:
        """Return a scanner of some columns of the rows that match an expression.

        Args:
            columns: Names of the columns, or a dict of expressions of Arrow; all if None.
            filter: An expression of Arrow; all rows if None.
            hints: `batch_size`, and arguments of Arrow's scanners that have no effect here.
        """
        condition = self._matching(filter)
        if not isinstance(columns, Mapping):
            options = {**self._options, "batch_size": hints.get("batch_size")}
            names = None if columns is None else list(columns)
            try:
                return self._table.scanner(names, condition, **options)
            except (FilterError, UnsupportedFeatureError):
                pass  # Arrow can evaluate more than a scan can
        return super().scanner(columns=columns, filter=condition, **hints)

    def to_table(self, columns: Any = None, filter: Any = None, **hints: Any) -> pa.Table:
        """Read a table; the arguments are those of `scanner`."""
        return self.scanner(columns, filter, **hints).to_table()

    def to_batches(
        self, columns: Any = None, filter: Any = None, **hints: Any
    ) -> Iterator[pa.RecordBatch]:
        """Read batches; the arguments are those of `scanner`."""
        return iter(self.scanner(columns, filter, **hints).to_batches())

    def head(
        self, num_rows: int, columns: Any = None, filter: Any = None, **hints: Any
    ) -> pa.Table:
        """Read the first rows; the other arguments are those of `scanner`."""
        found = self.scanner(columns, filter, **hints)
        if isinstance(found, LanceScanner):
            return found.head(num_rows)
        return super().head(num_rows, columns=columns, filter=self._matching(filter), **hints)

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **hints: Any) -> pa.Table:
        """Read rows by their numbers; the other arguments are those of `scanner`."""
        condition = self._matching(filter)
        if condition is None and not self._options and not isinstance(columns, Mapping):
            return self._table.take(np.asarray(indices), columns)
        return super().scanner(columns=columns, filter=condition, **hints).take(indices)

    def count_rows(self, filter: Any = None, **hints: Any) -> int:
        """Count the rows that match an expression."""
        return int(self.scanner(None, filter, **hints).count_rows())

    def _matching(self, expression: Any) -> Any:
        if expression is None or self._filter is None:
            return self._filter if expression is None else expression
        return self._filter & expression


class _FragmentFiles(FileSystemHandler):  # type: ignore[misc]
    """A file system of Arrow files; the name of a file is the id of a fragment."""

    def __init__(self, dataset: ScannedTable, options: Mapping[str, Any]) -> None:
        self._table = dataset
        self._options = options

    def get_type_name(self) -> str:
        """Return the kind of the file system."""
        return "pilum"

    def normalize_path(self, path: str) -> str:
        """Return the path, which has one form only."""
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[FileInfo]:
        """Return facts about files."""
        return [FileInfo(path, FileType.File) for path in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Return a fragment as an Arrow file."""
        fragment = self._table.get_fragment(int(path))
        if fragment is None:
            raise DatasetNotFoundError(f"there is no fragment {path}")
        found = self._table.scanner(fragments=[fragment], **self._options)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, found.projected_schema) as file:
            for batch in found.to_batches():
                file.write_batch(batch)
        return pa.BufferReader(sink.getvalue())

    open_input_stream = open_input_file

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedFeatureError("fragments are read only; write with pilum.write_dataset")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _refuse
    delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse
