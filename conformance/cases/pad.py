"""Samples of pad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import values
from conformance.cases._separable_sums import copies, separable_sample
from conformance.suite.sample import Sample

#: The sizes of the padded dimensions, by their number.
_SIZES = {1: (20,), 2: (7, 6), 3: (4, 3, 5)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.pad": tuple(_pad())}


def _pad() -> Iterator[Sample]:
    """Yields each mode in one to three dimensions, padding that reads nothing twice, constants."""
    for mode in ("reflect", "replicate", "circular"):
        for dims, sizes in _SIZES.items():
            # The largest padding, so that an element is read by all of it or from both sides.
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
        },
        call=lambda ns, x: ns.nn.functional.pad(x, (2, -1, 1, 0), value=1.5),
        arrays=(x,),
        expected=lambda x: np.pad(x[..., :-1], ((0, 0), (1, 0), (2, 0)), constant_values=1.5),
        wrt=0,
        expected_gradient=lambda ct, x: np.pad(ct[:, 1:, 2:], ((0, 0), (0, 0), (0, 1))),
    )


def _sample(name: str, mode: str, shape: tuple[int, ...], pairs: list[tuple[int, int]]) -> Sample:
    """Returns a call that adds a pair of lengths to the ends of each of the last dimensions."""
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
    """Returns the index of the element that index ``i``, possibly outside [0, n), copies."""
    if mode == "circular":
        while not start <= i < stop:
            i += (stop - start) if i < start else (start - stop)
    if 0 <= i < n:
        return i
    if mode == "replicate":
        return 0 if i < 0 else n - 1
    return -i if i < 0 else 2 * (n - 1) - i
