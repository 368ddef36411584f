"""Use an installed pilum: write, change, index and read a table; what `check-wheel.sh` runs."""

from __future__ import annotations

import shutil
import sys
import tempfile

import pyarrow as pa

import pilum

assert "site-packages" in pilum.__file__, pilum.__file__
for tool in ("cc", "gcc", "clang", "cargo", "rustc"):
    assert shutil.which(tool) is None, f"{tool} is on the PATH"

with tempfile.TemporaryDirectory() as folder:
    rows = pa.table({"number": range(5000), "text": [f"line {n % 7}" for n in range(5000)]})
    table = pilum.write_dataset(rows, f"{folder}/t.lance")
    table.create_scalar_index("number", "BTREE")
    table.create_scalar_index("text", "INVERTED")
    table.delete("number >= 4000")
    table = pilum.dataset(f"{folder}/t.lance")
    assert table.count_rows("number < 10") == 10
    assert table.to_table(filter="number = 77")["text"].to_pylist() == ["line 0"]
    assert table.to_table(full_text_query="3", limit=5).num_rows == 5
    assert table.take([3999])["number"].to_pylist() == [3999]

print(f"pilum {pilum.__version__} works with CPython {sys.version.split()[0]}")
