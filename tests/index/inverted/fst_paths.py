"""A naive reader of transducers, independent of the kernel."""

from __future__ import annotations

_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"


def fst_paths(data: bytes) -> list[tuple[bytes, int]]:
    """Return all keys and their values, in the order of the keys."""
    found = []
    todo = [(_number(data[-12:-4]), b"", 0)]
    while todo:
        address, key, value = todo.pop()
        is_final, last, steps = _node(data, address)
        if is_final:
            found.append((key, value + last))
        todo += [(target, key + bytes([byte]), value + out) for byte, out, target in steps]
    return sorted(found)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _node(data: bytes, address: int) -> tuple[bool, int, list[tuple[int, int, int]]]:
    if address == 0:
        return True, 0, []
    state = data[address]
    at = address

    def down(count: int) -> bytes:
        nonlocal at
        at -= count
        return data[at : at + count]

    if state >> 7:
        byte = _COMMON[(state & 63) - 1] if state & 63 else down(1)[0]
        if state >> 6 & 1:
            return False, 0, [(byte, 0, at - 1)]
        sizes = down(1)[0]
        delta, out = _number(down(sizes >> 4)), _number(down(sizes & 15))
        return False, 0, [(byte, out, at - delta if delta else 0)]
    count = state & 63
    if count == 0:
        count = down(1)[0]
        count = 256 if count == 1 else count
    sizes = down(1)[0]
    down(256 if count > 32 else 0)
    inputs = [down(1)[0] for _ in range(count)]
    deltas = [_number(down(sizes >> 4)) for _ in range(count)]
    outs = [_number(down(sizes & 15)) for _ in range(count)]
    is_final = bool(state >> 6 & 1)
    last = _number(down(sizes & 15)) if is_final else 0
    targets = [at - delta if delta else 0 for delta in deltas]
    return is_final, last, list(zip(inputs, outs, targets, strict=True))
