"""Write rows with a path and a content as files of a folder: the inverse of format="files".

path     content
a.png    …         ──▶   {target}/a.png
b/c.png  …         ──▶   {target}/b/c.png
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pilum.errors import DatasetAlreadyExistsError, InvalidInputError
from pilum.storage.base import Store
from pilum.storage.open import open_store

__all__ = ["write_files"]

_NEEDED = ("path", "content")


def write_files(
    frame: DataFrame,
    target: str,
    mode: Literal["errorifexists", "append"],
    storage_options: Mapping[str, str],
) -> None:
    """Write the content of each row to a file, in tasks. A repeated task writes the same files.

    Args:
        frame: Rows with the columns `path` and `content`.
        target: The folder.
        mode: "append" allows existing files; those of the same names are replaced.
        storage_options: Settings of the folder's store.

    Raises:
        DatasetAlreadyExistsError: If there are files and mode is "errorifexists".
        InvalidInputError: If a column is missing, a path leaves the folder or occurs twice, or a
            content is null. Other files may have been written by then.
    """
    if missing := [name for name in _NEEDED if name not in frame.columns]:
        raise InvalidInputError(
            f"format files: expected the columns path and content, {missing} are missing; "
            "name them so with transform="
        )
    store = open_store(target, storage_options)
    if mode == "errorifexists" and not _is_empty(store):
        raise DatasetAlreadyExistsError(f"{target}: there are files already; use mode append")

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        into = open_store(target, storage_options)
        for batch in batches:
            yield pa.record_batch({"path": batch.column(0), "refusal": _written(into, batch)})

    written = frame.select(*_NEEDED).mapInArrow(write, "path string, refusal string")
    told = written.groupBy("path").agg(sf.count("*").alias("n"), sf.max("refusal").alias("refusal"))
    for row in told.where("n > 1 OR refusal IS NOT NULL").limit(1).collect():
        raise InvalidInputError(f"{row.path!r}: {row.refusal or 'the path comes twice'}")


def _written(store: Store, batch: pa.RecordBatch) -> pa.Array:
    """Write each file as a separate object and return the refusals."""
    refusals = []
    for path, content in zip(*(batch.column(name).to_pylist() for name in _NEEDED), strict=True):
        refusal = _refusal(path, content)
        if refusal is None:
            store.put(path, content)
        refusals.append(refusal)
    return pa.array(refusals, pa.string())


def _refusal(path: str | None, content: bytes | None) -> str | None:
    if content is None:
        return "there is no content"
    parts = (path or "").split("/")
    if parts[0].endswith(":") or not {"", ".", ".."}.isdisjoint(parts):  # "file:/a", "/a", "../a"
        return "expected a path below the target, such as 'a/b.png'; say with transform= which"
    return None


def _is_empty(store: Store) -> bool:
    return next(store.names(""), None) is None and next(store.folders(""), None) is None
