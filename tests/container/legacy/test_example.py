"""One file of the reference implementation, byte by byte (S2.5)."""

from __future__ import annotations

import pyarrow as pa
from container.legacy.files import read_legacy, write_legacy

TABLE = pa.table({"s": ["hello", None, "world"]})
PAGES = b"helloworld" + b"".join(n.to_bytes(8, "little") for n in (0, 5, 5, 10))
PAGE_TABLE = b"".join(n.to_bytes(8, "little") for n in (10, 3))
STATISTICS = (
    (1).to_bytes(8, "little")
    + b"hello"
    + b"".join(n.to_bytes(8, "little") for n in (66, 71))
    + b"world"
    + b"".join(n.to_bytes(8, "little") for n in (87, 92))
)
STATISTICS_TABLE = b"".join(
    n.to_bytes(8, "little") for entry in ((0, 0), (58, 1), (71, 1), (92, 1)) for n in entry
)
MANIFEST = bytes.fromhex(
    "3d000000"
    "0a1a" "120173" "20ffffffffffffffffff01" "2a06737472696e67" "3001" "3802"
    "1801"
    "6a0f" "0a056c616e6365" "120631342e302e32"
    "7a0c" "0a056c616e6365" "1203302e31"
)  # fmt: skip
METADATA = bytes.fromhex(
    "7a000000"
    "08ac01" "12020003" "182a"
    "2a6f"
    "0a16" "120130" "20ffffffffffffffffff01" "2a06737472756374"
    "0a17" "120a6e756c6c5f636f756e74" "1801" "2a05696e743634" "3801"
    "0a19" "12096d696e5f76616c7565" "1802" "2a06737472696e67" "3001" "3802"
    "0a19" "12096d61785f76616c7565" "1803" "2a06737472696e67" "3001" "3802"
    "120400010203" "186c"
)  # fmt: skip
FOOTER = bytes.fromhex("ed00000000000000" "00000200" "4c414e43")  # fmt: skip
FILE = PAGES + PAGE_TABLE + STATISTICS + STATISTICS_TABLE + MANIFEST + METADATA + FOOTER


def test_its_parts_have_the_places_that_they_name() -> None:
    assert len(PAGES) == 42
    assert len(FILE) == 379


def test_it_is_read() -> None:
    assert read_legacy(FILE) == TABLE


def test_it_is_written_again() -> None:
    """All but the name of the writer, which moves what is behind it."""
    ours = write_legacy(TABLE)
    manifest = len(PAGES + PAGE_TABLE + STATISTICS + STATISTICS_TABLE)
    assert ours[:manifest] == FILE[:manifest]
    named = len("6a0f0a056c616e6365120631342e302e32") // 2
    assert len(ours) == len(FILE) - named
    assert ours[-len(FOOTER) - len(METADATA) : -len(FOOTER)] == METADATA
