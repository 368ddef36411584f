"""Naive twins of the kernels of near duplicates; see `pilum.index.minhash.minhash_lsh`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["band_keys", "signature", "xxh64"]

_MASK = 2**64 - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_SEED = 42


def signature(tokens: Sequence[str], num_hashes: int, shingle_size: int) -> list[int] | None:
    """Return the values of a signature; None without tokens."""
    if not tokens:
        return None
    size = min(shingle_size, len(tokens))
    starts = range(len(tokens) - size + 1)
    shingles = ["\x1f".join(tokens[start : start + size]).encode() for start in starts]
    hashes = [xxh64(shingle, _SEED) for shingle in shingles]
    draws = _draws(3 * num_hashes)
    found = []
    for number in range(num_hashes):
        a, b, c = draws[2 * number] | 1, draws[2 * number + 1], draws[2 * num_hashes + number] | 1
        least = min((a * x + b) & _MASK for x in hashes)
        found.append(((c * least) & _MASK) >> 48)
    return found


def band_keys(values: Sequence[int], num_bands: int) -> list[int]:
    """Return the keys of the bands of a signature."""
    width = len(values) // num_bands
    keys = []
    for band in range(num_bands):
        own = values[band * width : (band + 1) * width]
        data = b"".join(value.to_bytes(2, "little") for value in own)
        keys.append(band << 56 | xxh64(data, _SEED) & (2**56 - 1))
    return keys


def xxh64(data: bytes, seed: int) -> int:
    """Return the hash XXH64 of bytes."""
    one, two, three, four, five = _PRIMES
    at = 0
    if len(data) < 32:
        found = (seed + five) & _MASK
    else:
        lanes = [(seed + one + two) & _MASK, (seed + two) & _MASK, seed, (seed - one) & _MASK]
        while at + 32 <= len(data):
            words = [_word(data, at + 8 * lane, 8) for lane in range(4)]
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        turns = zip(lanes, (1, 7, 12, 18), strict=True)
        found = sum(_turned(lane, bits) for lane, bits in turns) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * one + four) & _MASK
    found = (found + len(data)) & _MASK
    while at + 8 <= len(data):
        found = (_turned(found ^ _round(0, _word(data, at, 8)), 27) * one + four) & _MASK
        at += 8
    if at + 4 <= len(data):
        found = (_turned(found ^ (_word(data, at, 4) * one & _MASK), 23) * two + three) & _MASK
        at += 4
    for byte in data[at:]:
        found = _turned(found ^ (byte * five & _MASK), 11) * one & _MASK
    found = (found ^ found >> 33) * two & _MASK
    found = (found ^ found >> 29) * three & _MASK
    return found ^ found >> 32


def _draws(count: int) -> list[int]:
    """Return the first numbers of SplitMix64."""
    state, found = _SEED, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        found.append(mixed ^ mixed >> 31)
    return found


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
