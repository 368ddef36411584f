"""Object stores: S3 and compatible services, Google Cloud Storage, Azure, and memory.

The client is obstore, which the extra `cloud` installs. This module adds what tables need: adjacent
ranges are coalesced and the others are read concurrently, large objects are written in parts, and
every error names the operation and the object.

    s3://bucket/path   s3a://…                     S3 and compatible services
    gs://bucket/path                               Google Cloud Storage
    az://container/path   azure://…                Azure; the account is a storage option
    abfss://container@account.dfs.core.windows.net/path   …; or is part of the location
    memory://any/path                              memory of this process, lost when it ends

A put that does not overwrite (`put_if_absent`) is a conditional request, so exactly one of several
writers wins. If the response is lost, the client may repeat the request and lose against itself. A
writer that loses must therefore check whose object it is, as commits do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.parallel import submit_request
from pilum.storage.base import Entry, Fetched, IoCounter, Ranges
from pilum.storage.cloud_client import Bucket, is_out_of_range, memory_bucket, open_bucket
from pilum.storage.cloud_options import AZURE, GCS, S3
from pilum.storage.cloud_sink import PART_BYTES, PARTS_AT_ONCE, CloudSink
from pilum.storage.coalesce import lay_out

__all__ = ["MEMORY_SCHEMES", "SERVICES", "CloudSource", "CloudStore", "open_cloud"]

_GAP_BYTES = 64 * 1024
"""A request takes about 30 ms. With 64 at once, it costs half a millisecond, in which a connection
transfers this many bytes.
"""

_PIECE_BYTES = 8 * 1024 * 1024
"""One connection is slower than the network: larger regions are read concurrently, in pieces."""

_TAIL_BYTES = 64 * 1024
_LIST_CHUNK = 1000
_NOT_PARTIAL = "non-partial response"

MEMORY_SCHEMES = frozenset({"memory", "shared-memory"})
SERVICES = {
    "s3": S3,
    "s3a": S3,
    "gs": GCS,
    "gcs": GCS,
    "az": AZURE,
    "azure": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}

_SPECIAL = re.compile("[%?#]")


def open_cloud(uri: str, options: Mapping[str, Any] | None = None) -> CloudStore:
    """Open the store at a location of `SERVICES` or `MEMORY_SCHEMES`, as `open_store`."""
    scheme, _, rest = uri.partition("://")
    scheme, given = scheme.lower(), dict(options or {})
    if "?" in rest or "#" in rest:
        raise InvalidInputError(f"{uri}: expected no ? or # in the location")
    authority, _, path = rest.partition("/")
    root = unquote(path).strip("/")
    if root and {"", ".", ".."} & set(root.split("/")):
        raise InvalidInputError(f"{uri}: expected no empty part, . or .. in the location")
    if scheme in MEMORY_SCHEMES:
        root, bucket = f"{authority}/{root}".strip("/"), memory_bucket()
    else:
        bucket = open_bucket(uri, SERVICES[scheme], authority, given)
    # Opening the store by its `uri` again must find the same place.
    plain = _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", unquote(path))
    uri = f"{scheme}://{authority}/{plain}".rstrip("/")
    return CloudStore(uri, root, bucket, partial(open_cloud, uri, given))


@dataclass(frozen=True, slots=True)
class CloudStore:
    """A store of the objects below one prefix of a bucket.

    Attributes:
        uri: The location of the root, as users write it.
        root: Key of the root, "" for the whole bucket.
        reopen: Opens the same store again, in another process.
        io: Counts what all stores of this root read and write.
    """

    uri: str
    root: str
    bucket: Bucket = field(repr=False, compare=False)
    reopen: partial[CloudStore] = field(repr=False)
    io: IoCounter = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", IoCounter.of(self.uri))

    def __reduce__(self) -> tuple[partial[CloudStore], tuple[()]]:
        return self.reopen, ()

    @property
    def identity(self) -> str:
        """The location together with its endpoint and credentials."""
        return f"{self.uri}#{self.bucket.number}"

    @property
    def lists_in_order(self) -> bool:
        """True except for directory buckets of S3 Express."""
        return self.bucket.lists_in_order

    @property
    def is_remote(self) -> bool:
        """True except for memory."""
        return self.bucket.process is not None

    @property
    def options(self) -> dict[str, str]:
        """The storage options that users passed, to open other locations in the same way."""
        return dict(self.reopen.args[1])

    def source(self, path: str, size: int | None = None) -> CloudSource:
        """Open an object for ranged reads.

        If the size is not known, one request fetches it together with the end of the object.
        """
        return CloudSource(self.bucket, self._key(path), self._where(path), size, self.io)

    def read(self, path: str) -> bytes:
        """Read a whole object."""
        with self._translate_errors(path):
            data = bytes(self.bucket.client.get(self._key(path)).bytes())
        self.io.count_read(len(data))
        return data

    def sink(self, path: str) -> CloudSink:
        """Start a new object: up to 10 MiB are one request, larger objects a multipart upload."""
        key = self._key(path)
        put = partial(self._put, path, key)
        return CloudSink(self._where(path), put, partial(self._put_parts, path, key), self.io)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole object, replacing one of the same name."""
        self._put(path, self._key(path), data)
        self.io.count_write(len(data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless one of the same name exists; exactly one caller wins.

        The result is what the store reports: see the module.
        """
        key = self._key(path)
        with self._translate_errors(path):
            try:
                self.bucket.client.put(key, data, mode="create")
            except Exception as error:
                if type(error).__name__ in {"AlreadyExistsError", "PreconditionError"}:
                    return False
                raise
        self.io.count_write(len(data))
        return True

    def list(self, folder: str) -> Iterator[Entry]:
        """List the objects directly in a folder; pages are requested as they are consumed."""
        prefix = self._key(folder)
        with self._translate_errors(folder):
            for chunk in self.bucket.client.list(prefix or None, chunk_size=_LIST_CHUNK):
                for found in chunk:
                    name = found["path"][len(prefix) :].removeprefix("/")
                    if name and "/" not in name:
                        yield Entry(name, found["size"], found["last_modified"].timestamp())

    def names(self, folder: str) -> Iterator[str]:
        """Return the names of the objects directly in a folder, in the order of `list`."""
        yield from (entry.name for entry in self.list(folder))

    def folders(self, folder: str) -> Iterator[str]:
        """Return the names of the folders directly in a folder, in lexical order."""
        with self._translate_errors(folder):
            found = self.bucket.client.list_with_delimiter(self._key(folder) or None)
        for prefix in found["common_prefixes"]:
            yield prefix.rpartition("/")[2]

    def delete(self, path: str) -> None:
        """Remove an object; no error if it does not exist."""
        with suppress(NotFoundError), self._translate_errors(path):
            self.bucket.client.delete(self._key(path))

    def _put(self, path: str, key: str, data: bytes | bytearray) -> None:
        with self._translate_errors(path):
            self.bucket.client.put(key, data, use_multipart=False)

    def _put_parts(self, path: str, key: str, parts: Iterator[bytearray]) -> None:
        with self._translate_errors(path):
            self.bucket.client.put(
                key,
                parts,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )

    def _translate_errors(self, path: str) -> AbstractContextManager[None]:
        return self.bucket.translate_errors(self._where(path))

    def _where(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def _key(self, path: str) -> str:
        # Paths come from manifests, which untrusted parties may have written.
        if ".." in path and ".." in path.split("/"):
            raise InvalidInputError(f"path {path!r} leaves the table at {self.uri}")
        return f"{self.root}/{path}".strip("/")


class CloudSource:
    """One object, read by ranges. Safe to use from several threads."""

    __slots__ = ("__weakref__", "_bucket", "_io", "_is_closed", "_key", "_tail", "path", "size")

    path: str
    size: int

    def __init__(
        self, bucket: Bucket, key: str, path: str, size: int | None, io: IoCounter
    ) -> None:
        self.path = path
        self._bucket = bucket
        self._key = key
        self._io = io
        self._is_closed = False
        self._tail: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.size = self._find_size() if size is None else size

    def read(self, ranges: Ranges) -> Fetched:
        """Read all ranges; distant or large ranges are read with several concurrent requests."""
        if self._is_closed:
            raise InvalidInputError(f"{self.path} is closed")
        layout = lay_out(ranges.offsets, ranges.sizes, self.size, _GAP_BYTES)
        if isinstance(layout, int):
            raise self._outside(int(ranges.offsets[layout]), int(ranges.sizes[layout]))
        buffer = np.frombuffer(pa.allocate_buffer(layout.size_bytes), np.uint8)
        pieces = [
            (offset + done, buffer[place + done : place + min(done + _PIECE_BYTES, size)])
            for offset, size, place in layout.regions
            for done in range(0, size, _PIECE_BYTES)
        ]
        self._fill(pieces)
        return Fetched(buffer, layout.starts, ranges.sizes)

    def is_mapped(self, offset: int, size: int) -> bool:
        """Return False: all bytes are fetched."""
        del offset, size
        return False

    def close(self) -> None:
        """Mark the source as closed; reading afterwards is an error."""
        self._is_closed = True

    def __repr__(self) -> str:
        return f"CloudSource({self.path!r}, {self.size})"

    def _fill(self, pieces: list[tuple[int, NDArray[np.uint8]]]) -> None:
        if len(pieces) == 1:
            self._fetch(*pieces[0])
            return
        requests = [submit_request(partial(self._fetch, *piece)) for piece in pieces]
        try:
            for request in requests:
                request.result()
        finally:
            for request in requests:
                request.cancel()

    def _fetch(self, offset: int, into: NDArray[np.uint8]) -> None:
        in_front = self.size - len(self._tail)
        if offset >= in_front:
            into[:] = self._tail[offset - in_front : offset - in_front + len(into)]
            return
        with self._bucket.translate_errors(self.path):
            try:
                data = self._bucket.client.get_range(self._key, start=offset, length=len(into))
            except Exception as error:
                if is_out_of_range(error):
                    raise self._shrunk(offset) from None
                raise
        self._io.count_read(len(data))
        if len(data) != len(into):
            raise self._shrunk(offset + len(data))
        into[:] = np.frombuffer(data, np.uint8)

    def _find_size(self) -> int:
        client = self._bucket.client
        with self._bucket.translate_errors(self.path):
            if self._bucket.has_suffix_ranges:
                try:
                    end = client.get(self._key, options={"range": {"suffix": _TAIL_BYTES}})
                    self._tail = np.frombuffer(end.bytes(), np.uint8)
                except FileNotFoundError:
                    raise
                except Exception as error:
                    # A suffix range of an empty object is refused, or is not a partial response.
                    if not is_out_of_range(error) and _NOT_PARTIAL not in str(error):
                        raise
                else:
                    self._io.count_read(len(self._tail))
                    return int(end.meta["size"])
            return int(client.head(self._key)["size"])

    def _outside(self, offset: int, size: int) -> CorruptFileError:
        return CorruptFileError(
            f"{size} bytes at {offset} do not lie within the file of {self.size} bytes", self.path
        )

    def _shrunk(self, end: int) -> CorruptFileError:
        return CorruptFileError(f"expected {self.size} bytes, found no more than {end}", self.path)
