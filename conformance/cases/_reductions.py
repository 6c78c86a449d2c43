"""What is right for reductions of all contributions to one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, Array, values
from spec import oracles

_BY: Mapping[str, np.ufunc] = MappingProxyType(
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
class ReductionName:
    """A reduction along the first dimension, of ``s`` to the elements of ``x`` that ``i`` names.

    Attributes:
        reduce: As in PyTorch.
        number: A key of ``DTYPES``.
        include_self: As in PyTorch.
    """

    reduce: str
    number: str = "floating"
    include_self: bool = True

    @property
    def name(self) -> str:
        """For a sample."""
        return f"{self.reduce}_{self.number}" + ("" if self.include_self else "_without_self")

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a call."""
        return {"reduce": self.reduce, "include_self": self.include_self}

    def values(self, shape: tuple[int, ...], seed: int = 0) -> Array:
        """Numbers to reduce; a product of thousands stays in range."""
        if self.reduce == "prod":
            return (1 + values(shape, np.float32, seed) / 16).astype(DTYPES[self.number])
        return values(shape, DTYPES[self.number], seed)

    def expected(self, x: Array, i: Array, s: Array) -> Array:
        """In float64."""
        out = self._start(x.astype(np.float64), i)
        _BY[self.reduce].at(out, i, s.astype(np.float64))
        return self._finished(out, x.astype(np.float64), i)

    def ordered(self, x: Array, i: Array, s: Array) -> Array:
        """In panel order; float16 and bfloat16 in float32, and rounded once."""
        wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
        start, s = self._start(x.astype(wide), i), s.astype(wide)
        by = _BY[self.reduce]
        if by in (np.add, np.multiply):
            start = oracles.panel(start, i, s, by)
        else:
            by.at(start, i, s)
        return self._finished(start, x, i)

    def terms(self, x: Array, i: Array) -> Array:
        """What a mean divides by, for each place."""
        return np.maximum(np.bincount(i, minlength=len(x)) + self.include_self, 1)

    def _start(self, x: Array, i: Array) -> Array:
        if self.include_self:
            return x.copy()
        limits = np.iinfo(x.dtype) if x.dtype.kind == "i" else _Unbounded
        first: dict[np.ufunc, Any] = {
            np.add: -0.0,
            np.multiply: 1,
            np.maximum: limits.min,
            np.minimum: limits.max,
        }
        number = np.asarray(first[_BY[self.reduce]]).astype(x.dtype)
        return np.where(_touched(x, i), number, x)

    def _finished(self, total: Array, x: Array, i: Array) -> Array:
        if self.reduce == "mean":
            divide = np.floor_divide if DTYPES[self.number] is np.int32 else np.divide
            total = divide(total, self.terms(x, i).astype(total.dtype))
        return np.where(_touched(x, i), total.astype(x.dtype), x)


def _touched(x: Array, i: Array) -> Array:
    return np.isin(np.arange(len(x)), i)
