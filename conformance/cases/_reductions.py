"""References of ops that reduce all contributions to one destination."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, Array, values
from spec import oracles

_COMBINE: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "sum": np.add,
        "mean": np.add,
        "prod": np.multiply,
        "amax": np.maximum,
        "amin": np.minimum,
    }
)


class _Unbounded:
    min, max = -np.inf, np.inf


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction along the first dimension, of ``s`` into the elements of ``x`` that ``i`` names.

    Attributes:
        reduce: The argument of PyTorch.
        number: A key of ``DTYPES``.
        include_self: The argument of PyTorch.
    """

    reduce: str
    number: str = "floating"
    include_self: bool = True

    @property
    def name(self) -> str:
        """The name of a sample."""
        return f"{self.reduce}_{self.number}" + ("" if self.include_self else "_without_self")

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of a call."""
        return {"reduce": self.reduce, "include_self": self.include_self}

    def values(self, shape: tuple[int, ...], seed: int = 0) -> Array:
        """Returns numbers to reduce. A product of thousands of them stays in range."""
        if self.reduce == "prod":
            return (1 + values(shape, np.float32, seed) / 16).astype(DTYPES[self.number])
        return values(shape, DTYPES[self.number], seed)

    def expected(self, x: Array, i: Array, s: Array) -> Array:
        """Returns the result in float64."""
        out = self._start(x.astype(np.float64), i)
        _COMBINE[self.reduce].at(out, i, s.astype(np.float64))
        return self._finished(out, x.astype(np.float64), i)

    def ordered(self, x: Array, i: Array, s: Array) -> Array:
        """Returns the result in order. bfloat16 is added in float32 and rounded once."""
        wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
        total, s = self._start(x.astype(wide), i), s.astype(wide)
        combine = _COMBINE[self.reduce]
        if combine in (np.add, np.multiply):
            total = oracles.source(total, i, s, combine)
        else:
            combine.at(total, i, s)
        return self._finished(total, x, i)

    def divisor(self, x: Array, i: Array) -> Array:
        """Returns the divisor of a mean for each destination."""
        return np.maximum(np.bincount(i, minlength=len(x)) + self.include_self, 1)

    def _start(self, x: Array, i: Array) -> Array:
        if self.include_self:
            return x.copy()
        limits = np.iinfo(x.dtype) if x.dtype.kind == "i" else _Unbounded
        identities: dict[np.ufunc, Any] = {
            np.add: -0.0,
            np.multiply: 1,
            np.maximum: limits.min,
            np.minimum: limits.max,
        }
        identity = np.asarray(identities[_COMBINE[self.reduce]]).astype(x.dtype)
        return np.where(_touched(x, i), identity, x)

    def _finished(self, total: Array, x: Array, i: Array) -> Array:
        if self.reduce == "mean":
            divide = np.floor_divide if DTYPES[self.number] is np.int32 else np.divide
            total = divide(total, self.divisor(x, i).astype(total.dtype))
        return np.where(_touched(x, i), total.astype(x.dtype), x)


def _touched(x: Array, i: Array) -> Array:
    return np.isin(np.arange(len(x)), i)
