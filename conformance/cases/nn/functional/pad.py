"""Calls of pad."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import values
from conformance.cases.nn.functional._separable import copies, separable_sample

#: Sizes that are padded, by how many there are.
_SIZES = {1: (20,), 2: (7, 6), 3: (4, 3, 5)}


def samples() -> Iterator[Sample]:
    """Each mode in one to three dimensions, and where nothing is read twice; constants."""
    for mode in ("reflect", "replicate", "circular"):
        for dims, sizes in _SIZES.items():
            # The most that is read from one place: by all of the padding, or from both sides.
            pairs = [
                (20, 9) if mode == "replicate" else (n - 1, n - (mode == "reflect")) for n in sizes
            ]
            batch = (2, 3) if dims == 2 else (3,)
            yield _sample(f"{mode} {dims}d", mode, (*batch, *sizes), pairs)
    yield _sample("apart", "reflect", (3, 8, 5), [(-2, 0), (-1, 1)])
    x = values((2, 3, 4), np.float32)
    yield Sample(
        name="constant",
        facts={
            "dtype": "floating",
            "input_ndim": 3,
            "mode": "constant",
            "spatial_ndim": 2,
            "overlapping": False,
        },
        call=lambda ns, x: ns.nn.functional.pad(x, (2, -1, 1, 0), value=1.5),
        arrays=(x,),
        expected=lambda x: np.pad(x[..., :-1], ((0, 0), (1, 0), (2, 0)), constant_values=1.5),
        wrt=0,
        expected_pullback=lambda ct, x: np.pad(ct[:, 1:, 2:], ((0, 0), (0, 0), (0, 1))),
    )


def _sample(name: str, mode: str, shape: tuple[int, ...], pairs: list[tuple[int, int]]) -> Sample:
    """A call that adds a pair of lengths to the ends of each of the last dimensions."""
    flat = [length for pair in reversed(pairs) for length in pair]
    reads = [
        copies([_source(mode, i, n, max(-a, 0), n + min(b, 0)) for i in range(-a, n + b)])
        for n, (a, b) in zip(shape[-len(pairs) :], pairs, strict=True)
    ]
    return separable_sample(
        name,
        lambda ns, x: ns.nn.functional.pad(x, flat, mode=mode),
        values(shape, np.float32),
        reads,
        mode=mode,
        spatial_ndim=len(pairs),
    )


def _source(mode: str, i: int, n: int, start: int, stop: int) -> int:
    """What the element at ``i``, which may be outside [0, n), is a copy of."""
    if mode == "circular":
        while not start <= i < stop:
            i += (stop - start) if i < start else (start - stop)
    if 0 <= i < n:
        return i
    if mode == "replicate":
        return 0 if i < 0 else n - 1
    return -i if i < 0 else 2 * (n - 1) - i
