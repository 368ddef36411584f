"""Rows with a path and a content as files of a folder.

path     content
a.png    …         ──▶   {target}/a.png
b/c.png  …         ──▶   {target}/b/c.png
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from pilum.storage.open import open_store
from pilum.storage.system import exclusively

__all__ = ["exclusively", "has_files", "write_files"]


def has_files(folder: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether a folder has any file or subfolder."""
    store = open_store(folder, storage_options)
    names = next(store.names(""), None), next(store.folders(""), None)
    return names != (None, None)


def write_files(
    batches: Iterable[pa.RecordBatch],
    folder: str,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write the `content` of each row to a file at its `path`; a repeated task writes them again.

    Yields:
        The column `path`, and `refusal`: why a row was not written, because its path leaves the
        folder or it has no content. Null for rows that were written.
    """
    store = open_store(folder, storage_options)
    for batch in batches:
        refusals = []
        columns = (batch.column(name).to_pylist() for name in ("path", "content"))
        for path, content in zip(*columns, strict=True):
            refusal = _refusal(path, content)
            if refusal is None:
                store.put(path, content)
            refusals.append(refusal)
        answers = pa.array(refusals, pa.string())
        yield pa.record_batch({"path": batch.column("path"), "refusal": answers})


def _refusal(path: str | None, content: bytes | None) -> str | None:
    if content is None:
        return "there is no content"
    parts = (path or "").split("/")
    if parts[0].endswith(":") or not {"", ".", ".."}.isdisjoint(parts):  # "file:/a", "/a", "../a"
        return "expected a path below the target, such as 'a/b.png'; say with transform= which"
    return None
