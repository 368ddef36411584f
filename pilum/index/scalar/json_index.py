"""JSON: an index of the values at one path of JSON documents, by another type of index.

    {"x": 3}    {"x": null}    null    {"y": 1}          documents, path x
    3           null           null    null              values to index

The documents are JSON in its binary form. A column may contain it without being marked as JSON:
then other values are refused, while in a column of JSON they are damaged.

All values must have one scalar type: boolean, integer, number, or text; integers among numbers are
numbers. The type is that of the first value, text if there is none. The files are those of the
other type of index. The details have the path and the details of that type.

Paths, in which `$` may be left out at the beginning:

    $.x.y    $["x"]["y"]    $."x y"    $.x[0]

A function that gets a member takes its name, not a path: `json_get_int(j, 'a.b')` is the member
"a.b", and the path a.b is the member "b" of "a". So an index of a path of several steps does not
answer it.

Source: docs/format/indices.md, "JSON".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arguments import require_known
from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2
from pilum.index.answers import Answer
from pilum.index.base import REFERENCE, VALUE, Index, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import AtPath, Query
from pilum.index.scalar.bitmap import BITMAP
from pilum.index.scalar.btree import BTREE
from pilum.kernels import json_values

__all__ = ["JSON_INDEX", "steps_of"]

_TARGETS: dict[str, IndexType[Any]] = {one.name: one for one in (BTREE, BITMAP)}
_URLS = {one.type_url.rpartition(".")[2].lower(): one for one in _TARGETS.values()}

Steps: TypeAlias = tuple[int | str, ...]
"""Names of members and numbers of items, from the document downwards."""

_STEP = re.compile(r"""\.?(\w+)|\."([^"\\]+)"|\["([^"\\]+)"\]|\['([^'\\]+)'\]|\[(\d{1,9})\]""")

_NONE, _BOOL, _INT, _FLOAT, _TEXT = range(5)  # as the kernel numbers them
_TYPES = {_BOOL: pa.bool_(), _INT: pa.int64(), _FLOAT: pa.float64(), _TEXT: pa.string()}
_KINDS = {kind: number for number, kind in _TYPES.items()}
_NAMES = ("null", "boolean", "integer", "number", "text", "array or object")


def steps_of(path: str) -> Steps | None:
    """Return the steps of a path; None for the forms of JSONPath that are not supported."""
    steps: list[int | str] = []
    rest = f".{path}" if re.match(r"\w", path) else path.removeprefix("$")
    while rest:
        found = _STEP.match(rest)
        if found is None or not rest.startswith((".", "[")):
            return None
        *names, item = found.groups()
        steps += [int(item)] if item else [name for name in names if name]
        rest = rest[found.end() :]
    return tuple(steps) or None


@dataclass(frozen=True, slots=True)
class _Parameters:
    path: str
    steps: Steps
    target: IndexType[Any]
    of_target: Any


class JsonIndex(Index):
    """An open segment.

    Attributes:
        path: The path.
        target: The type of the index of the values.
        index: The open index of the values.
        type: Type of the values.
    """

    def __init__(self, path: str, target: IndexType[Any], index: Any) -> None:
        self.path = path
        self.target = target
        self.index: Index = index
        self.type: pa.DataType = index.type
        self._steps = steps_of(path)

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return self.index.size_bytes

    def search(self, query: Query) -> Answer | None:
        """Return the rows whose value at the path matches."""
        inner = self._inner(query)
        return None if inner is None else self.index.search(inner)

    def estimate(self, query: Query) -> int | None:
        """Return about how many rows `search` would return."""
        inner = self._inner(query)
        return None if inner is None else self.index.estimate(inner)

    def statistics(self) -> dict[str, Any]:
        """Return the figures of the index of the values."""
        return self.index.statistics()

    def prewarm(self) -> None:
        """Load the index of the values."""
        self.index.prewarm()

    def _inner(self, query: Query) -> Query | None:
        if isinstance(query, AtPath) and (query.steps, query.type) == (self._steps, self.type):
            return query.query
        return None


class _Json(IndexType[JsonIndex]):
    name = "JSON"
    type_url = "/lance.index.pb.JsonIndexDetails"
    references = References.ROW_IDS

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed."""
        if not pt.is_large_binary(type):
            raise UnsupportedTypeError(
                f"JSON index: column {column!r} has the type {type}; it must be JSON"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> _Parameters:
        """Check `path`, `target_index_type`, and `target_index_parameters` (a JSON text)."""
        known = ("path", "target_index_type", "target_index_parameters")
        require_known("JSON indices have", given, known)
        path, name = given.get("path"), str(given.get("target_index_type", "")).upper()
        steps = steps_of(path) if isinstance(path, str) else None
        if not isinstance(path, str) or steps is None:
            raise InvalidInputError(f"JSON index: path is {path!r}; expected one as $.name[0].name")
        if name not in _TARGETS:
            known_types = ", ".join(_TARGETS)
            raise InvalidInputError(
                f"JSON index: target_index_type is {name!r}; expected one of {known_types}"
            )
        text = given.get("target_index_parameters") or "{}"
        try:
            of_target = text if isinstance(text, Mapping) else json.loads(text)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"JSON index: target_index_parameters: {error}") from None
        target = _TARGETS[name]
        return _Parameters(path, steps, target, target.parameters(of_target, pa.string()))

    def described(self, details: bytes) -> dict[str, Any]:
        """Return the path, and the parameters in the details of the other type."""
        message = _parsed(details)
        target = _target(message)
        known = {} if target is None else target.described(message.target_details.value)
        return {"path": message.path, "target_details": known}

    def train(self, rows: IndexRows, parameters: _Parameters, folder: IndexFolderWriter) -> bytes:
        """Train the index of the values."""
        values = _values(rows, parameters.steps, None)
        details = parameters.target.train(values, parameters.of_target, folder)
        return _packed(parameters.path, parameters.target, details)

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> JsonIndex:
        """Open the index of the values."""
        message = _parsed(details)
        target = _target(message)
        if target is None:
            other = message.target_details.type_url
            raise UnsupportedFeatureError(f"JSON index by an index of type {other!r}")
        index = target.open(folder, message.target_details.value, index_version)
        return JsonIndex(message.path, target, index)

    def merge(
        self, parts: Sequence[Part[JsonIndex]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Merge the indices of the values with those of new rows."""
        last = parts[-1].index
        steps = steps_of(last.path)
        if rows is not None and steps is None:
            raise UnsupportedFeatureError(f"JSON index of the path {last.path!r}; create another")
        types = {str(part.index.type) for part in parts}
        if len(types) > 1:
            raise InvalidInputError(
                f"JSON index of {last.path!r}: segments of {', '.join(sorted(types))} cannot be "
                "merged; create it again"
            )
        values = None if rows is None or steps is None else _values(rows, steps, last.type)
        inner = [Part(part.index.index, part.moves) for part in parts]
        return _packed(last.path, last.target, last.target.merge(inner, values, folder))


JSON_INDEX = _Json()


def _packed(path: str, target: IndexType[Any], details: bytes) -> bytes:
    message = index_pb2.JsonIndexDetails(path=path)
    message.target_details.type_url = target.type_url
    message.target_details.value = details
    return bytes(message.SerializeToString())


def _parsed(details: bytes) -> index_pb2.JsonIndexDetails:
    return parse_message(index_pb2.JsonIndexDetails, details, what="details of a JSON index")


def _target(message: index_pb2.JsonIndexDetails) -> IndexType[Any] | None:
    """Return the type of the index of the values; None if it is not supported."""
    url = message.target_details.type_url
    return _URLS.get(url.rpartition("/")[2].rpartition(".")[2].lower())


def _values(rows: IndexRows, steps: Steps, kind: pa.DataType | None) -> IndexRows:
    """Return the values at a path; of a type, or of that of the first value."""
    documents = iter(rows.batches)
    held: list[pa.RecordBatch] = []
    for batch in documents if kind is None else ():
        held.append(batch)
        kinds = _extracted(batch.column(VALUE), steps, rows.are_json).kinds
        if kinds.any():
            first = int(kinds[kinds > _NONE][0])
            kind = _TYPES.get(first)
            if kind is None:
                raise InvalidInputError(f"JSON index: a value is an {_NAMES[first]}, not a scalar")
            break
    typed = kind or pa.string()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in chain(held, documents):
            values = _extracted(batch.column(VALUE), steps, rows.are_json).as_type(typed)
            columns = [values, batch.column(REFERENCE)]
            yield pa.RecordBatch.from_arrays(columns, names=[VALUE, REFERENCE])

    return IndexRows(typed, batches(), rows.num_rows)


@dataclass(frozen=True, slots=True)
class _Extracted:
    kinds: NDArray[np.uint8]
    bits: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    texts: NDArray[np.uint8]

    def as_type(self, kind: pa.DataType) -> pa.Array:
        """Return the values, of which all that are not null must have a type."""
        wanted = _KINDS[kind]
        is_null = self.kinds == _NONE
        is_int = self.kinds == _INT
        is_right = is_null | (self.kinds == wanted)
        if wanted == _FLOAT:
            is_right |= is_int
        if not is_right.all():
            other = _NAMES[int(self.kinds[~is_right][0])]
            raise InvalidInputError(
                f"JSON index: a value is of the type {other}, others are {_NAMES[wanted]}"
            )
        if wanted == _TEXT:
            ends = self.offsets.astype(np.int32)
            mask = np.packbits(~is_null, bitorder="little")
            buffers = [pa.py_buffer(mask), pa.py_buffer(ends), pa.py_buffer(self.texts)]
            return pa.Array.from_buffers(kind, len(self.kinds), buffers)
        if wanted == _BOOL:
            return pa.array(self.bits != 0, kind, mask=is_null)
        if wanted == _INT:
            return pa.array(self.bits.view(np.int64), kind, mask=is_null)
        numbers = self.bits.view(np.float64).copy()
        numbers[is_int] = self.bits[is_int].view(np.int64)
        return pa.array(numbers, kind, mask=is_null)


def _extracted(documents: pa.Array, steps: Steps, are_json: bool) -> _Extracted:
    if documents.null_count and documents.offset:
        documents = pa.concat_arrays([documents, documents[:0]])
    validity, offsets, data = documents.buffers()
    ends = np.zeros(1, np.int64)
    if len(documents):
        ends = np.frombuffer(offsets, np.int64)[documents.offset :][: len(documents) + 1]
    bitmap = np.frombuffer(validity, np.uint8) if documents.null_count else None
    values = np.frombuffer(b"" if data is None else data, np.uint8)
    try:
        return _Extracted(*json_values(ends, values, bitmap, steps))
    except CorruptFileError as error:
        if are_json:
            raise
        raise InvalidInputError(
            f"values of the type {documents.type} that are not JSON in its binary form ({error}); "
            "write the texts as a column of the type pyarrow.json_()"
        ) from None
