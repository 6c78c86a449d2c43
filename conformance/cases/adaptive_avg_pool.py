"""Samples of adaptive_avg_pool1d, adaptive_avg_pool2d and adaptive_avg_pool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.cases._average_pooling import SIZES, adaptive_windows, dtypes, lengths, mean
from conformance.cases._data import DTYPES, values
from conformance.suite.sample import Sample

#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (211,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 3, 4)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        f"nn.functional.adaptive_avg_pool{dims}d": tuple(_adaptive_avg_pool(dims))
        for dims in (1, 2, 3)
    }


def _adaptive_avg_pool(dims: int) -> Iterator[Sample]:
    """Yields windows of several lengths, windows that share no element, and one window."""
    name, sizes = f"adaptive_avg_pool{dims}d", SIZES[dims]
    even = tuple(n // m * m for n, m in zip(sizes, _EVEN[dims], strict=True))
    for label, dtype, shape, output_size in (
        *((f"uneven, {dtype}", dtype, (2, 3, *sizes), _UNEVEN[dims]) for dtype in dtypes(dims)),
        ("even", "floating", (3, *even), _EVEN[dims]),
        ("one", "floating", (2, 3, *sizes), (1,) * dims),
    ):
        reads = [adaptive_windows(n, m) for n, m in zip(shape[-dims:], output_size, strict=True)]
        yield mean(
            label,
            lambda ns, x, to=output_size: getattr(ns.nn.functional, name)(x, to),
            values(shape, DTYPES[dtype]),
            reads,
            lengths(reads),
            separable=True,
            output_size_is_one=label == "one",
        )
