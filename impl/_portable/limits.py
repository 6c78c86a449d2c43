"""The sizes that a portable rule is for; ``spec/portable.toml`` has the numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import spec
from impl._exact.linear_algebra.fourier import prime_factors


def within(
    found: spec.Portability, avals: Sequence[Any], params: Mapping[str, Any]
) -> spec.Portability:
    """Returns the class of an equation, which refuses it if its sizes are beyond the limits.

    Args:
        found: The class of its primitive.
        avals: The types of its operands and results.
        params: Its parameters.
    """
    sizes = _SIZES[found.name](avals, params) if found.limits else {}
    if all(size <= found.limits[name] for name, size in sizes.items()):
        return found
    return dataclasses.replace(found, answer="refused")


def _of_matrix(avals: Sequence[Any], _: Mapping[str, Any]) -> Mapping[str, int]:
    sides = [n for n in avals[0].shape[-2:] if isinstance(n, int)]
    return {"side": min(sides, default=0)}


def _of_transform(_: Sequence[Any], params: Mapping[str, Any]) -> Mapping[str, int]:
    lengths = [n for n in params["fft_lengths"] if isinstance(n, int)]
    primes = [prime for n in lengths for prime in prime_factors(n)]
    return {"length": max(lengths, default=1), "prime": max(primes, default=1)}


#: The sizes of an equation that its class limits; symbolic sizes are left out.
_SIZES: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any]], Mapping[str, int]]] = {
    "rotations": _of_matrix,
    "transforms": _of_transform,
}
