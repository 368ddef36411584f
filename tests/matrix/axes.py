"""What the matrix crosses: types, null patterns, shapes of values, sizes, versions, settings."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from interop.strategies import LEAVES

__all__ = [
    "KINDS",
    "NULLS",
    "SETTINGS",
    "SHAPES",
    "SIZES",
    "VERSIONS",
    "Kind",
    "Shape",
]

VERSIONS = ("0.1", "2.0", "2.1", "2.2")

NULLS = ("none", "some", "all", "outermost", "innermost")
"""Where nulls are: nowhere, some or all at every level, some at one end of a nested type."""

SIZES = (0, 1, 2, 9, 1023, 1024, 1025, 4095, 4096, 4097, 9000)


@dataclass(frozen=True)
class Kind:
    """A type of the matrix.

    Attributes:
        name: As the page shows it.
        type: In Arrow.
        metadata: Of the field: how a writer is told of a special storage.
    """

    name: str
    type: pa.DataType
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def is_flat(self) -> bool:
        """Whether values have no levels below their own."""
        return not (pt.is_nested(self.type) or isinstance(self.type, pa.BaseExtensionType))


def _kinds() -> list[Kind]:
    text, number = pa.string(), pa.int32()
    point = pa.struct([("x", number), ("y", text)])
    pair = pa.struct([("a", number), ("b", pa.float32())])
    vector = pa.list_(pa.float32(), 3)
    nested = {
        "fixed_size_list<float>[3]": vector,
        "fixed_size_list<float>[80]": pa.list_(pa.float32(), 80),
        "fixed_size_list<bool>[5]": pa.list_(pa.bool_(), 5),
        "fixed_size_list<int8>[4]": pa.list_(pa.int8(), 4),
        "fixed_size_list<fixed_size_list<double>[2]>[3]": pa.list_(pa.list_(pa.float64(), 2), 3),
        "fixed_size_list<string>[2]": pa.list_(text, 2),
        "fixed_size_list<struct>[2]": pa.list_(pair, 2),
        "struct<int32, string>": point,
        "struct<struct<int32, string>>": pa.struct([("p", point)]),
        "struct<list<int32>>": pa.struct([("l", pa.list_(number))]),
        "struct<fixed_size_list<float>[3]>": pa.struct([("v", vector)]),
        "struct<>": pa.struct([]),
        "list<int32>": pa.list_(number),
        "list<string>": pa.list_(text),
        "list<bool>": pa.list_(pa.bool_()),
        "list<fixed_size_list<float>[3]>": pa.list_(vector),
        "list<list<int16>>": pa.list_(pa.list_(pa.int16())),
        "list<struct<int32, string>>": pa.list_(point),
        "list<struct<list<string>>>": pa.list_(pa.struct([("l", pa.list_(text))])),
        "large_list<int64>": pa.large_list(pa.int64()),
        "large_list<large_string>": pa.large_list(pa.large_string()),
        "map<string, int32>": pa.map_(text, number),
        "map<int32, list<string>>": pa.map_(number, pa.list_(text)),
        "dictionary<int8, string>": pa.dictionary(pa.int8(), text),
        "dictionary<int32, string>": pa.dictionary(number, text),
        "dictionary<uint16, int64>": pa.dictionary(pa.uint16(), pa.int64()),
        "dictionary<int32, list<int32>>": pa.dictionary(number, pa.list_(number)),
        "list<dictionary<int8, string>>": pa.list_(pa.dictionary(pa.int8(), text)),
        "string_view": pa.string_view(),
        "binary_view": pa.binary_view(),
        "list_view<int32>": pa.list_view(number),
        "run_end_encoded<int32, int32>": pa.run_end_encoded(number, number),
        "decimal32(9, 0)": pa.decimal32(9, 0),
        "decimal64(18, 0)": pa.decimal64(18, 0),
        "month_day_nano_interval": pa.month_day_nano_interval(),
        "dense_union<int32, string>": pa.dense_union([pa.field("a", number), pa.field("b", text)]),
        "extension uuid": pa.uuid(),
        "extension fixed_shape_tensor": pa.fixed_shape_tensor(pa.float32(), (2, 2)),
        "struct<extension uuid, extension bool8>": pa.struct([("u", pa.uuid()), ("b", pa.bool8())]),
        "list<extension opaque>": pa.list_(pa.opaque(number, "mark", "pilum")),
    }
    special = [
        Kind("packed struct<int32, float>", pair, (("lance-encoding:packed", "true"),)),
        Kind("packed struct<int32, string>", point, (("lance-encoding:packed", "true"),)),
        Kind("blob (large_binary)", pa.large_binary(), (("lance-encoding:blob", "true"),)),
    ]
    plain = [Kind(str(leaf), leaf) for leaf in LEAVES]
    return [*plain, *(Kind(name, kind) for name, kind in nested.items()), *special]


KINDS = {kind.name: kind for kind in _kinds()}


@dataclass(frozen=True)
class Shape:
    """How values look: see `interop.strategies.Style`."""

    spread: str
    length: int


SHAPES = {
    "random": Shape("any", 8),
    "random long": Shape("any", 300),
    "small": Shape("small", 3),
    "few": Shape("few", 8),
    "runs": Shape("runs", 3),
    "constant": Shape("one", 8),
    "empty": Shape("any", 0),
}

SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "compression=lz4": {"lance-encoding:compression": "lz4"},
    "compression=zstd, level 5": {
        "lance-encoding:compression": "zstd",
        "lance-encoding:compression-level": "5",
    },
    "compression=none": {"lance-encoding:compression": "none"},
    "compression=fsst": {"lance-encoding:compression": "fsst"},
    "rle-threshold=0.9": {"lance-encoding:rle-threshold": "0.9"},
    "rle-threshold=0": {"lance-encoding:rle-threshold": "0"},
    "bss=on, lz4": {"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"},
    "bss=off": {"lance-encoding:bss": "off"},
    "dict-divisor=1": {"lance-encoding:dict-divisor": "1"},
    "dict-divisor=1000": {"lance-encoding:dict-divisor": "1000"},
    "dict-size-ratio=0.1": {"lance-encoding:dict-size-ratio": "0.1"},
    "dict-size-ratio=1": {"lance-encoding:dict-size-ratio": "1.0"},
    "dict-values-compression=zstd": {"lance-encoding:dict-values-compression": "zstd"},
    "structural-encoding=miniblock": {"lance-encoding:structural-encoding": "miniblock"},
    "structural-encoding=fullzip": {"lance-encoding:structural-encoding": "fullzip"},
    "minichunk-size=512": {"lance-encoding:minichunk-size": "512"},
}
"""Field metadata, given to the column and to each of its leaves."""
