"""The encoding options of users, from the metadata of a field or for a whole write.

    EncodingOptions attribute    metadata of the field           values
    compression                  lance-encoding:compression      lz4, zstd, fsst, none
    compression_level            …:compression-level             0 to 22, for zstd
    rle_threshold                …:rle-threshold                 0 to 1
    bss                          …:bss                           auto, on, off
    dict_divisor                 …:dict-divisor                  1 and above
    dict_size_ratio              …:dict-size-ratio               above 0, to 1
    dict_values_compression      …:dict-values-compression       lz4, zstd, none
    dict_values_compression_level  …                             0 to 22, for zstd
    structural_encoding          …:structural-encoding           miniblock, fullzip
    minichunk_size               …:minichunk-size                1 and above, bytes
    prefer, minichunk_values,    none, they are not part of the format
    zones

The metadata of a field take precedence over the options of a write. They are read from the leaf,
except for the structural encoding, which is read from the column. Source:
docs/format/encodings-2.1.md, "Field metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal, TypeAlias

from pilum.arguments import integer_of
from pilum.errors import InvalidInputError

__all__ = ["EncodingOptions"]

_PREFIX = "lance-encoding:"
_MAX_LEVEL = 22
_MAX_CHUNK_VALUES = 32_768

Scheme: TypeAlias = Literal["lz4", "zstd"]
"""A general compression."""


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """Options of how values are encoded; None leaves the choice to the writer.

    An option is applied where it makes a page smaller. Any choice can be read by any reader.

    Attributes:
        compression: "lz4" or "zstd" for general compression of values, "fsst" for strings of
            symbols, "none" for uncompressed values.
        compression_level: Level of zstd, 0 for its default.
        rle_threshold: Run-length encoding needs fewer runs than this share of the values.
        bss: "on" or "off" for byte-stream split where values are compressed with lz4 or zstd;
            "auto" tries it on a sample.
        dict_divisor: A dictionary has at most the number of values divided by this.
        dict_size_ratio: A dictionary with its indices has at most this share of the plain bytes.
        dict_values_compression: Compression of dictionaries, since file version 2.2.
        dict_values_compression_level: Level of zstd, 0 for its default.
        structural_encoding: "miniblock" or "fullzip", regardless of the size of values.
        minichunk_size: Bytes of values that a chunk of a mini-block page aims at. Files of version
            2.1 have no chunks above 32 KiB.
        prefer: "size" compresses all pages with zstd where that makes them smaller, in chunks as
            large as the file version has. "speed" leaves values as they are where decoding them
            would take time: numbers get no dictionary, and decimals are not compressed.
        minichunk_values: Most values of a chunk, a power of two from 2 to 32,768; it has no
            metadata key. Bit-packed chunks always have 1,024.
        zones: Whether the least and greatest values and the nulls of each 8,192 rows are written,
            so that filters skip rows. They take less than 0.4 % of a file, and writing takes up to
            a tenth longer. None writes those of columns whose values are in some order, as samples
            show. Since file version 2.1; compaction always writes them.
        requested: The requested compression; zstd if small files are preferred and none is named.
        general: The scheme of general compression, if one is requested.
        dict_scheme: The scheme that dictionaries are compressed with, if any.

    Raises:
        InvalidInputError: If a value is not allowed.
    """

    compression: str | None = None
    compression_level: int | None = None
    rle_threshold: float | None = None
    bss: str = "auto"
    dict_divisor: int = 2
    dict_size_ratio: float = 0.8
    dict_values_compression: str = "lz4"
    dict_values_compression_level: int | None = None
    structural_encoding: str | None = None
    minichunk_size: int | None = None
    prefer: str | None = None
    minichunk_values: int = 4096
    zones: bool | None = None
    requested: str | None = field(init=False, compare=False, repr=False)
    general: Scheme | None = field(init=False, compare=False, repr=False)
    dict_scheme: Scheme | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            value = getattr(self, name)
            if not (value is None and name in _OPTIONAL) and not rule.allows(value):
                raise InvalidInputError(f"{name}: expected {rule.expected}, found {value!r}")
        if not isinstance(self.zones, bool | None):
            raise InvalidInputError(f"zones: expected a bool or None, found {self.zones!r}")
        is_small = self.compression is None and self.prefer == "size"
        requested = "zstd" if is_small else self.compression
        object.__setattr__(self, "requested", requested)
        object.__setattr__(self, "general", _scheme(requested))
        object.__setattr__(self, "dict_scheme", _scheme(self.dict_values_compression))

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> EncodingOptions:
        """Build options from attribute names and values as texts."""
        found: dict[str, Any] = {}
        for name, text in texts.items():
            found[name] = _RULES[name].parse(text)
            if found[name] is None:
                raise InvalidInputError(f"{name}: expected {_RULES[name].expected}, found {text!r}")
        return cls(**found)

    @classmethod
    def of_field(
        cls, path: Sequence[tuple[str, Mapping[str, str]]], defaults: EncodingOptions
    ) -> EncodingOptions:
        """Return the options of one leaf column, with defaults for what the metadata leave out.

        `path` has the names and metadata of the fields from the column down to the leaf.
        InvalidInputError is raised if the metadata hold a value that is not allowed.
        """
        (_, column), (_, leaf) = path[0], path[-1]
        if not (column or leaf):
            return defaults
        found: dict[str, Any] = {}
        for name, rule in _RULES.items():
            key = _PREFIX + name.replace("_", "-")
            text = (column if name == "structural_encoding" else leaf).get(key)
            if text is None or name in _WITHOUT_KEY:
                continue
            value = rule.parse(text)
            if value is None:
                raise InvalidInputError(
                    f"column {'.'.join(part for part, _ in path)!r}, metadata {key}: expected "
                    f"{rule.expected}, found {text!r}"
                )
            found[name] = value
        return replace(defaults, **found) if found else defaults


def _scheme(name: str | None) -> Scheme | None:
    if name == "lz4":
        return "lz4"
    return "zstd" if name == "zstd" else None


@dataclass(frozen=True, slots=True)
class _Rule:
    """The allowed values of an option, and their spelling in metadata."""

    kind: Callable[[str], Any]
    expected: str
    test: Callable[[Any], bool]

    def allows(self, value: Any) -> bool:
        if self.kind is str:
            return isinstance(value, str) and self.test(value)
        is_real = self.kind is float and isinstance(value, Real) and not isinstance(value, bool)
        number = value if is_real else integer_of(value)
        return number is not None and self.test(number)

    def parse(self, text: str) -> Any | None:
        """Parse a value; return None if it is not allowed."""
        try:
            value = self.kind(text.strip().lower() if self.kind is str else text)
        except ValueError:
            return None
        return value if self.allows(value) else None


_WITHOUT_KEY = {"minichunk_values", "prefer"}
_OPTIONAL = {
    "compression",
    "compression_level",
    "rle_threshold",
    "dict_values_compression_level",
    "structural_encoding",
    "minichunk_size",
    "prefer",
}


def _one_of(*values: str) -> _Rule:
    return _Rule(str, f"{', '.join(values[:-1])} or {values[-1]}", values.__contains__)


def _is_power_of_two(value: int) -> bool:
    return value & (value - 1) == 0


_LEVEL = _Rule(int, f"an integer from 0 to {_MAX_LEVEL}", lambda level: 0 <= level <= _MAX_LEVEL)
_RULES = {
    "compression": _one_of("lz4", "zstd", "fsst", "none"),
    "compression_level": _LEVEL,
    "rle_threshold": _Rule(float, "a number from 0 to 1", lambda share: 0 <= share <= 1),
    "bss": _one_of("auto", "on", "off"),
    "dict_divisor": _Rule(int, "an integer above 0", lambda divisor: divisor > 0),
    "dict_size_ratio": _Rule(float, "a number above 0, to 1", lambda ratio: 0 < ratio <= 1),
    "dict_values_compression": _one_of("lz4", "zstd", "none"),
    "dict_values_compression_level": _LEVEL,
    "structural_encoding": _one_of("miniblock", "fullzip"),
    "minichunk_size": _Rule(int, "an integer above 0", lambda size: 0 < size < 1 << 31),
    "prefer": _one_of("size", "speed"),
    "minichunk_values": _Rule(
        int,
        f"a power of two from 2 to {_MAX_CHUNK_VALUES}",
        lambda count: 2 <= count <= _MAX_CHUNK_VALUES and _is_power_of_two(count),
    ),
}
