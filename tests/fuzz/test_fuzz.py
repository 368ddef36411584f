"""Some thousand damaged files, always the same; and damage that leaves nothing to chance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from explore.setting import EXPLORES
from fuzz.attempt import attempt
from fuzz.messages import mutate_message
from fuzz.mutate import mutate
from fuzz.parts import FileParts
from fuzz.seeds import Seed, seeds
from fuzz.watch import fuzz

TURNS = 1
SEEDS = seeds()
VERSIONS = ("0.1", "2.0", "2.1", "2.2")
REFUSED = {"CorruptFileError", "UnsupportedVersionError", "UnsupportedFormatError"}


def small(version: str) -> list[Seed]:
    """The three smallest files of a version that hold values."""
    of_version = [seed for seed in SEEDS if f"/{version}/" in seed.name and "null" in seed.name]
    return sorted(of_version, key=lambda seed: len(seed.data))[:3]


@pytest.mark.slow
@pytest.mark.seeds(1)
def test_thousands_of_damaged_files(tmp_path: Path, seed: int) -> None:
    turns = range(seed, seed + TURNS)
    result = fuzz(turns, workers=1, out=tmp_path, judges_costs=EXPLORES)
    assert [finding.end for finding in result.findings] == []
    assert {"values", "CorruptFileError"} <= set(result.ends)


def test_there_are_seeds_of_every_version() -> None:
    assert len(SEEDS) > 100
    assert all(small(version) for version in VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_beginning_is_refused(version: str) -> None:
    for seed in small(version):
        for size in range(len(seed.data)):
            end = attempt(seed, seed.data[:size])
            assert end in REFUSED, (seed.name, size, end)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_byte_may_be_wrong(version: str) -> None:
    for seed in small(version)[:2]:
        for at in range(len(seed.data)):
            for change in (0x01, 0x80, 0xFF):
                damaged = bytearray(seed.data)
                damaged[at] ^= change
                end = attempt(seed, bytes(damaged))
                assert not end.startswith("BAD"), (seed.name, at, change, end)


def test_the_same_seed_makes_the_same_damage() -> None:
    for seed in SEEDS[:20]:
        one, other = (mutate(seed.data, random.Random(7)) for _ in range(2))
        assert one == other


def test_parts_make_the_file_again() -> None:
    whole = [seed for seed in SEEDS if FileParts.parse(seed.data)]
    assert len(whole) > 50
    for seed in whole:
        parts = FileParts.parse(seed.data)
        assert parts is not None
        again = parts.build()
        assert attempt(seed, again) == attempt(seed, seed.data)
        for number in range(20):
            mutate_message(parts.descriptor, random.Random(number))
