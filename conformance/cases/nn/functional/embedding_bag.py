"""Calls of embedding_bag."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from conformance.cases.nn.functional._tables import bounded, bounded_in_order, wide
from spec import oracles

#: As many bags as there are destinations; the second has no elements, and the last a few.
_OFFSETS = np.array([0, 900, 900, 1300, 1310, 2400, 2490], np.int32)
#: Enough elements in a row that the order in which they add up shows.
_WIDTH = 1500


def samples() -> Iterator[Sample]:
    """Each mode; a row that does not count; weights, differentiated too; rows bounded in norm."""
    for name, mode, dtype in (("sum", "sum", np.float32), ("narrow", "mean", bfloat16)):
        yield _sample(name, mode, (indices((MANY,)), _OFFSETS, values((FEW, 3), dtype)))
    table = np.round(values((FEW, 3), np.float32))
    yield _sample("max", "max", (indices((MANY, 2)), None, table))
    # A third is not what is divided by where 1 is divided first.
    triples = (indices((MANY // 3, 3)), None, values((FEW, 3), np.float32))
    yield _sample("padding", "mean", triples, padding_idx=3)
    weights = values((MANY,), np.float32)
    flat = (indices((MANY,)), _OFFSETS, values((FEW, 3), np.float32), weights)
    yield _sample("weighted", "sum", flat)
    broad = (indices((4, 3)), None, values((FEW, _WIDTH), np.float32), weights[:12].reshape(4, 3))
    yield _sample("by_weights", "sum", broad, wrt=3)
    few = (indices((40, 3)), None, values((FEW, 5), np.float32))
    yield _sample("bounded", "max", few, max_norm=1.5)
    for mode in ("mean", "max"):
        yield _sample(f"powers_{mode}", mode, few, max_norm=1.5, norm_type=3)


def _sample(
    name: str,
    mode: str,
    arrays: tuple[Array | None, ...],
    wrt: int = 2,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: int = 2,
) -> Sample:
    """A call with an input, offsets or None, a table, and perhaps weights."""
    given = [a for a in arrays if a is not None]
    without = arrays[1] is None

    def taken(*given: Any) -> tuple[Any, ...]:
        arrays = (given[0], None, *given[1:]) if without else given
        return (*arrays, None)[:4]

    def call(ns: Any, *given: Any) -> Any:
        i, offsets, w, p = taken(*given)
        return ns.nn.functional.embedding_bag(
            i, w, offsets, max_norm, norm_type, False, mode, False, p, False, padding_idx
        )

    def reference(*given: Any, ordered: bool) -> _Bags:
        i, offsets, w, p = taken(*given)
        return _Bags(mode, ordered, i, offsets, w, p, padding_idx, max_norm, norm_type)

    portable = max_norm is None or norm_type == 2
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": 2 if without else 1,
            "mode": mode,
            "max_norm": max_norm is not None,
            "power_norm": norm_type == 3,
        },
        call=call,
        arrays=tuple(given),
        expected=lambda *given: reference(*given, ordered=False).forward(),
        ordered=(lambda *given: reference(*given, ordered=True).forward()) if portable else None,
        wrt=wrt - without,
        expected_pullback=lambda ct, *given: reference(*given, ordered=False).pullback(ct, wrt),
        ordered_pullback=(
            (lambda ct, *given: reference(*given, ordered=True).pullback(ct, wrt))
            if portable
            else None
        ),
    )


@dataclasses.dataclass
class _Bags:
    """What is right for a call: in float64, or in the order and the dtypes of the spec."""

    mode: str
    ordered: bool
    i: Array
    offsets: Array | None
    w: Array
    p: Array | None
    padding: int | None
    max_norm: float | None
    norm_type: int

    def __post_init__(self) -> None:
        self.dtype = wide(self.w.dtype) if self.ordered else np.dtype(np.float64)
        self.flat = self.i.reshape(-1)
        position = np.arange(self.flat.size)
        if self.offsets is None:
            self.count, self.bag = len(self.i), position // self.i.shape[1]
        else:
            self.count = len(self.offsets)
            self.bag = np.searchsorted(self.offsets, position, side="right") - 1
        self.bag = np.where(self.flat == self.padding, -1, self.bag)
        self.rows = self._table()[self.flat]

    def forward(self) -> Array:
        if self.mode == "max":
            first = self._winners()
            rows = np.take_along_axis(self.rows, np.maximum(first, 0), 0)
            return np.where(first >= 0, rows, 0).astype(self._result())
        rows = self.rows if self.p is None else self.rows * self._weights()
        return np.asarray(self._add(self.count, self.bag, rows) / self._sizes()).astype(
            self._result()
        )

    def pullback(self, ct: Array, wrt: int) -> Array:
        ct = ct.astype(self.dtype) / self._sizes()
        if self.mode == "max":
            first = self._winners()
            places = np.where(first >= 0, self.flat[first], -1)
            columns = [self._add(len(self.w), at, c) for at, c in zip(places.T, ct.T, strict=True)]
            return np.stack(columns, 1).astype(self._result())
        kept = (self.bag >= 0)[:, None]
        ct = np.where(kept, ct[self.bag], 0)
        if wrt == 3:
            along = np.zeros(ct.shape[1], np.int64)
            sums = self._add(1, along, (ct * self.rows).T)[0]
            return np.reshape(sums, self.i.shape).astype(self._result())
        rows = ct if self.p is None else ct * self._weights()
        places = np.where(self.bag >= 0, self.flat, -1)
        return self._add(len(self.w), places, rows).astype(self._result())

    def _table(self) -> Array:
        if self.max_norm is None:
            return self.w.astype(self.dtype)
        if self.ordered:
            return bounded_in_order(self.w, self.max_norm)
        return bounded(self.w, self.max_norm, self.norm_type)

    def _weights(self) -> Array:
        assert self.p is not None  # noqa: S101  # narrows its type
        return self.p.reshape(-1, 1).astype(self.dtype)

    def _result(self) -> np.dtype[Any]:
        return self.w.dtype if self.ordered else self.dtype

    def _sizes(self) -> Array:
        held = np.bincount(self.bag[self.bag >= 0], minlength=self.count)[:, None]
        return (np.maximum(held, 1) if self.mode == "mean" else np.ones_like(held)).astype(
            self.dtype
        )

    def _add(self, size: int, places: Array, source: Array) -> Array:
        zero = np.zeros((size, *source.shape[1:]), self.dtype)
        if self.ordered:
            return oracles.panel(zero, places, source)
        return folded(zero, places[places >= 0], source[places >= 0])

    def _winners(self) -> Array:
        """Position of the greatest element of each bag and column, the first of equal ones."""
        first = np.full((self.count, self.rows.shape[1]), -1)
        for bag in range(self.count):
            held = np.flatnonzero(self.bag == bag)
            if held.size:
                first[bag] = held[np.argmax(self.rows[held], axis=0)]
        return first
