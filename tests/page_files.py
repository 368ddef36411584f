"""Files of several pages of each column, for tests that read rows of single pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from pilum.container.open import open_file
from pilum.container.reader import FileReader
from pilum.encodings.base import PageRead
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.index.files import IndexFolderWriter
from pilum.storage.local import LocalSource, LocalStore

__all__ = ["check_rows_far_apart", "opened", "page_of", "written"]

_NAME = "rows.lance"


def written(folder: Path, rows: pa.Table, max_page_bytes: int) -> IndexFolderWriter:
    """Write rows to a file with pages of at most this size."""
    made = IndexFolderWriter(LocalStore(str(folder)), "x", FileVersion.V2_1)
    with made.file(_NAME, rows.schema, max_page_bytes=max_page_bytes) as file:
        file.write(rows)
    return made


def opened(folder: IndexFolderWriter) -> FileReader:
    """Open the file."""
    found = open_file(LocalSource(f"{folder.store.uri}/x/{_NAME}"))
    assert isinstance(found, FileReader)
    return found


def page_of(reader: FileReader, column: int, number: int, *ranges: tuple[int, int]) -> PageRead:
    """Return the read of some rows, as ranges, of a page of a column."""
    known = reader.column(column)
    return known.read(int(known.row_bounds[number]), RowRanges.of(*ranges), reader.source)


def check_rows_far_apart(rows: pa.Table, folder: IndexFolderWriter, seed: int) -> None:
    """Check that random runs of a few rows are those that were written."""
    random = np.random.default_rng(seed)
    last = len(rows) - 1
    wanted = np.sort(random.choice(len(rows), random.integers(1, 60), replace=False))
    wide = np.unique(np.minimum(wanted[:, None] + np.arange(random.integers(1, 5)), last))
    found = folder.written().open(_NAME).read(rows=RowRanges.of_rows(wide))
    assert found.to_pydict() == rows.take(pa.array(wide)).to_pydict()
