"""What the fuzzer starts from: small files of every version, each with the fragment that it is."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from container.damage import columns

import pilum
from pilum.container.open import open_file
from pilum.errors import PilumError, UnsupportedFormatError
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.open import open_store
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.names import data_path
from pilum.table.read.snapshot import Snapshot

__all__ = ["Seed", "seeds"]

_TESTS = Path(__file__).parents[1]
_MAX_BYTES = 40_000


@dataclass(frozen=True)
class Seed:
    """A data file and how a table would read it.

    Attributes:
        name: For messages.
        data: The file.
        schema: Of the table.
        fragment: Its only file, whose size is not told: damage may change it.
    """

    name: str
    data: bytes
    schema: Schema
    fragment: Fragment


def seeds() -> list[Seed]:
    """All seeds, in an order that stays."""
    found = [*_golden(), *_written(), *_old()]
    return sorted((seed for seed in found if len(seed.data) <= _MAX_BYTES), key=lambda s: s.name)


def _golden() -> Iterator[Seed]:
    for path in (_TESTS / "golden").glob("*.lance"):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "data").mkdir()
            (Path(folder) / "data" / "x").write_bytes(path.read_bytes())
            try:
                reader = open_file(open_store(folder).source("data/x", None))
            except UnsupportedFormatError:
                continue
            version = reader.version
            if version not in (FileVersion.V2_1, FileVersion.V2_2):
                continue  # which column is which stands in the manifest only
            leaves = [leaf.id for field in reader.schema.fields for leaf in field.leaves()]
            file = DataFile(
                "x", tuple(leaves), tuple(range(len(leaves))), version.major, version.minor
            )
            fragment = Fragment(FragmentId(0), (file,), reader.num_rows)
            yield Seed(f"golden/{path.stem}", path.read_bytes(), reader.schema, fragment)


def _written() -> Iterator[Seed]:
    """What this library writes, in each version that it writes."""
    for version in FileVersion:
        for name, column in columns().items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    pilum.write_dataset(
                        pa.table({name: column}), folder + "/t", data_storage_version=str(version)
                    )
                except PilumError:
                    continue
                yield from _of_table(Path(folder, "t"), f"written/{version}/{name}")


def _old() -> Iterator[Seed]:
    """What old releases of the reference wrote."""
    for archive in (_TESTS / "fixtures").glob("*.tar.xz"):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
            for table in Path(folder).glob("*/*.lance"):
                release = archive.name.removesuffix(".tar.xz")
                yield from _of_table(table, f"{release}/{table.parent.name}/{table.stem}")


def _of_table(path: Path, name: str) -> Iterator[Seed]:
    try:
        snapshot = Snapshot.latest(open_store(path))
    except PilumError:
        return
    fragment = snapshot.manifest.fragments[0]
    data = (path / data_path(fragment.files[0].path)).read_bytes()
    files = (replace(fragment.files[0], size_bytes=None),)
    yield Seed(name, data, snapshot.schema, replace(fragment, files=files))
