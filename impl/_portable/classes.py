"""The class of ``spec/portable.toml`` that decides about an equation, by its dtypes and sizes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import spec
from impl._exact.linear_algebra.fourier import prime_factors
from impl._jax import shardings
from impl._portable import exported


def class_of(
    name: str, avals: Sequence[Any], params: Mapping[str, Any] | None = None
) -> spec.Portability | None:
    """Returns the class that decides about an equation; None if it has no floats to decide about.

    Args:
        name: The name of its primitive.
        avals: The types of its operands and results. If one is unreduced, so that devices hold
            terms which JAX adds later in any order, the class is the class of such sums.
        params: Its parameters; None for the class of its primitive.
    """
    is_unreduced = any(map(shardings.is_unreduced, avals))
    portability = spec.portability("unreduced_psum" if is_unreduced else name, dtypes(avals))
    if portability is None or params is None:
        return portability
    if name == exported.NAME:
        return exported.portability(portability, params)
    return _within_limits(portability, avals, params)


def dtypes(avals: Sequence[Any]) -> frozenset[str]:
    """Returns the names of the dtypes of operands or results; a token has no dtype."""
    return frozenset(_name(aval.dtype) for aval in avals if hasattr(aval, "dtype"))


#: Returns the name of a dtype, which NumPy writes anew each time.
_name = functools.cache(str)


def _within_limits(
    portability: spec.Portability, avals: Sequence[Any], params: Mapping[str, Any]
) -> spec.Portability:
    """Returns a class, which refuses the equation if a size is beyond the limits of the class."""
    sizes = _SIZES[portability.name](avals, params) if portability.limits else {}
    if all(size <= portability.limits[name] for name, size in sizes.items()):
        return portability
    return dataclasses.replace(portability, answer="refused")


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
