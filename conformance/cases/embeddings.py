"""Samples of embedding and embedding_bag."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    folded,
    indices,
    kind,
    rounded_once,
    values,
)
from conformance.suite.sample import OpInfo, Sample
from spec import oracles


def wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Returns the dtype that the ordered path computes in."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def bounded(rows: Array, max_norm: float, order: int) -> Array:
    """Returns rows scaled down to a norm of at most ``max_norm``, in float64."""
    exact = rows.astype(np.float64)
    norm = np.linalg.norm(exact, order, axis=1, keepdims=True)
    return np.where(norm > max_norm, exact * (max_norm / (norm + 1e-7)), exact)


def bounded_in_order(rows: Array, max_norm: float) -> Array:
    """Returns the bits of rows scaled down to a Euclidean norm of at most ``max_norm``.

    The squares are added exactly.
    """
    number = rows.dtype.type
    destination = np.zeros(rows.shape[1], np.int64)
    zero = np.zeros((1, len(rows)), rows.dtype)
    norm = np.sqrt(oracles.nearest_scatter(zero, destination, (rows * rows).T)[0])[:, None]
    return np.where(
        norm > number(max_norm), rows * (number(max_norm) / (norm + number(1e-7))), rows
    )


#: A row so wide that the order of the additions to its norm changes bits.
_EMBEDDING_WIDTH = 1500


def _embedding() -> Iterator[Sample]:
    """Yields each dtype; gradients divided by counts, with a padding row; and bounded norms."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts=_facts(kind(name)),
            call=lambda ns, i, w: ns.nn.functional.embedding(i, w),
            arrays=(indices((MANY,)), values((FEW, 3), dtype)),
            expected=lambda i, w: w[i],
            ordered=lambda i, w: w[i],
            wrt=None if dtype is np.int32 else 1,
            expected_gradient=lambda ct, i, w: folded(np.zeros(w.shape), i, ct),
            ordered_gradient=lambda ct, i, w: oracles.source(np.zeros_like(w), i, ct),
            choices=rounded_once(name, "backward"),
        )
    yield Sample(
        name="divided",
        facts={**_facts(), "input_ndim": 2},
        call=lambda ns, i, w: ns.nn.functional.embedding(
            i, w, padding_idx=-5, scale_grad_by_freq=True
        ),
        arrays=(indices((50, 50)), values((FEW, 3), np.float32)),
        expected=lambda i, w: w[i],
        ordered=lambda i, w: w[i],
        wrt=1,
        expected_gradient=lambda ct, i, w: _divided(ct, i, np.zeros(w.shape), folded),
        ordered_gradient=lambda ct, i, w: _divided(ct, i, np.zeros_like(w), oracles.source),
    )
    for name, order in (("bounded", 2), ("bounded_powers", 3)):
        yield Sample(
            name=name,
            facts={**_facts(), "max_norm": True, "power_norm": order == 3},
            call=lambda ns, i, w, order=order: ns.nn.functional.embedding(i, w, None, 38, order),
            arrays=(indices((9,)), values((FEW, _EMBEDDING_WIDTH), np.float32)),
            expected=lambda i, w, order=order: bounded(w, 38, order)[i],
            ordered=(lambda i, w: bounded_in_order(w, 38)[i]) if order == 2 else None,
        )


def _facts(dtype: str = "floating") -> dict[str, spec.FactValue]:
    return {"dtype": dtype, "input_ndim": 1, "max_norm": False, "power_norm": False}


def _divided(ct: Array, i: Array, zero: Array, add: Any) -> Array:
    out = add(zero, i.reshape(-1), ct.reshape(-1, ct.shape[-1]))
    count = np.maximum(np.bincount(i.reshape(-1), minlength=FEW), 1)
    out = out / count[:, None].astype(zero.dtype)
    out[-5] = 0
    return np.asarray(out)


#: The first element of each bag. The second bag is empty, and the last bag is small.
_OFFSETS = np.array([0, 900, 900, 1300, 1310, 2400, 2490], np.int32)
#: A row so wide that the order of additions changes bits.
_EMBEDDING_BAG_WIDTH = 1500


def _embedding_bag() -> Iterator[Sample]:
    """Yields each mode, a padding row, weights and their gradient, and rows with bounded norms."""
    for name, mode, dtype in (("sum", "sum", np.float32), ("narrow", "mean", bfloat16)):
        yield _sample(name, mode, (indices((MANY,)), _OFFSETS, values((FEW, 3), dtype)))
    table = np.round(values((FEW, 3), np.float32))
    yield _sample("max", "max", (indices((MANY, 2)), None, table))
    # A division by 3 differs from a product with its reciprocal.
    triples = (indices((MANY // 3, 3)), None, values((FEW, 3), np.float32))
    yield _sample("padding", "mean", triples, padding_idx=3)
    weights = values((MANY,), np.float32)
    flat = (indices((MANY,)), _OFFSETS, values((FEW, 3), np.float32), weights)
    yield _sample("weighted", "sum", flat)
    broad = (
        indices((4, 3)),
        None,
        values((FEW, _EMBEDDING_BAG_WIDTH), np.float32),
        weights[:12].reshape(4, 3),
    )
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
    """Returns a call with an input, offsets or None, a table, and perhaps weights."""
    inputs = [a for a in arrays if a is not None]
    no_offsets = arrays[1] is None

    def parts(*inputs: Any) -> tuple[Any, ...]:
        """Returns the input, the offsets or None, the table, and the weights or None."""
        arrays = (inputs[0], None, *inputs[1:]) if no_offsets else inputs
        return (*arrays, None)[:4]

    def call(ns: Any, *inputs: Any) -> Any:
        i, offsets, w, p = parts(*inputs)
        return ns.nn.functional.embedding_bag(
            i, w, offsets, max_norm, norm_type, False, mode, False, p, False, padding_idx
        )

    def reference(*inputs: Any, ordered: bool) -> _Bags:
        i, offsets, w, p = parts(*inputs)
        return _Bags(mode, ordered, i, offsets, w, p, padding_idx, max_norm, norm_type)

    portable = max_norm is None or norm_type == 2
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": 2 if no_offsets else 1,
            "mode": mode,
            "max_norm": max_norm is not None,
            "power_norm": norm_type == 3,
        },
        call=call,
        arrays=tuple(inputs),
        expected=lambda *inputs: reference(*inputs, ordered=False).forward(),
        ordered=(lambda *inputs: reference(*inputs, ordered=True).forward()) if portable else None,
        wrt=wrt - no_offsets,
        expected_gradient=lambda ct, *inputs: reference(*inputs, ordered=False).gradient(ct, wrt),
        ordered_gradient=(
            (lambda ct, *inputs: reference(*inputs, ordered=True).gradient(ct, wrt))
            if portable
            else None
        ),
    )


@dataclasses.dataclass
class _Bags:
    """The reference of a call: in float64, or in the order and the dtypes of the spec."""

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
            position = self._greatest()
            rows = np.take_along_axis(self.rows, np.maximum(position, 0), 0)
            return np.where(position >= 0, rows, 0).astype(self._result_dtype())
        rows = self.rows if self.p is None else self.rows * self._weights()
        return np.asarray(self._add(self.count, self.bag, rows) / self._sizes()).astype(
            self._result_dtype()
        )

    def gradient(self, ct: Array, wrt: int) -> Array:
        ct = ct.astype(self.dtype) / self._sizes()
        if self.mode == "max":
            position = self._greatest()
            index = np.where(position >= 0, self.flat[position], -1)
            columns = [self._add(len(self.w), i, c) for i, c in zip(index.T, ct.T, strict=True)]
            return np.stack(columns, 1).astype(self._result_dtype())
        in_a_bag = self.bag >= 0
        ct = np.where(in_a_bag[:, None], ct[self.bag], 0)
        if wrt == 3:
            destination = np.zeros(ct.shape[1], np.int64)
            sums = self._add(1, destination, (ct * self.rows).T)[0]
            return np.reshape(sums, self.i.shape).astype(self._result_dtype())
        rows = ct if self.p is None else ct * self._weights()
        index = np.where(in_a_bag, self.flat, -1)
        return self._add(len(self.w), index, rows).astype(self._result_dtype())

    def _table(self) -> Array:
        if self.max_norm is None:
            return self.w.astype(self.dtype)
        if self.ordered:
            return bounded_in_order(self.w, self.max_norm)
        return bounded(self.w, self.max_norm, self.norm_type)

    def _weights(self) -> Array:
        assert self.p is not None  # noqa: S101  # narrows its type
        return self.p.reshape(-1, 1).astype(self.dtype)

    def _result_dtype(self) -> np.dtype[Any]:
        return self.w.dtype if self.ordered else self.dtype

    def _sizes(self) -> Array:
        sizes = np.bincount(self.bag[self.bag >= 0], minlength=self.count)[:, None]
        return (np.maximum(sizes, 1) if self.mode == "mean" else np.ones_like(sizes)).astype(
            self.dtype
        )

    def _add(self, size: int, index: Array, source: Array) -> Array:
        zeros = np.zeros((size, *source.shape[1:]), self.dtype)
        if self.ordered:
            return oracles.source(zeros, index, source)
        return folded(zeros, index[index >= 0], source[index >= 0])

    def _greatest(self) -> Array:
        """Returns the position of the greatest element of each bag and column.

        It is the first of equal ones, and -1 for an empty bag.
        """
        position = np.full((self.count, self.rows.shape[1]), -1)
        for bag in range(self.count):
            elements = np.flatnonzero(self.bag == bag)
            if elements.size:
                position[bag] = elements[np.argmax(self.rows[elements], axis=0)]
        return position


OPS = (
    OpInfo("nn.functional.embedding", _embedding),
    OpInfo("nn.functional.embedding_bag", _embedding_bag),
)
