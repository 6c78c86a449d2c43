"""Calls of nll_loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, indices, values
from conformance.cases.nn.functional._tables import wide
from spec import oracles

#: Targets of this class do not count.
_IGNORED = 2


def samples() -> Iterator[Sample]:
    """A mean by weight, and a sum over images of a narrow dtype."""
    weight = np.abs(values((FEW,), np.float32))
    yield _sample("mean", (values((MANY, FEW), np.float32), indices((MANY,)), weight), "mean")
    images = values((2, FEW, 35, 36), bfloat16)
    yield _sample("narrow", (images, indices((2, 35, 36))), "sum")


def _sample(name: str, arrays: tuple[Array, ...], reduction: str) -> Sample:
    def call(ns: Any, x: Any, target: Any, weight: Any = None) -> Any:
        return ns.nn.functional.nll_loss(
            x, target, weight, ignore_index=_IGNORED, reduction=reduction
        )

    def forward(x: Array, target: Array, weight: Array | None = None, *, ordered: bool) -> Array:
        terms, shares, kept = _terms(x, target, weight, ordered=ordered)
        sum_ = _add(np.where(kept, terms, 0))
        if reduction == "mean":
            sum_ = sum_ / _add(np.where(kept, shares, 0))
        return np.asarray(sum_).astype(_result(x, ordered))

    def pullback(
        ct: Array, x: Array, target: Array, weight: Array | None = None, *, ordered: bool
    ) -> Array:
        terms, shares, kept = _terms(x, target, weight, ordered=ordered)
        ct = ct.astype(terms.dtype)
        if reduction == "mean":
            ct = ct / _add(np.where(kept, shares, 0))
        ours = np.arange(x.shape[1]).reshape(-1, *[1] * (x.ndim - 2)) == target[:, None]
        each = np.where(kept, -(ct * shares), 0)[:, None]
        return np.where(ours, each, 0).astype(_result(x, ordered))

    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": arrays[0].ndim, "reduction": reduction},
        call=call,
        arrays=arrays,
        expected=lambda *given: forward(*given, ordered=False),
        ordered=lambda *given: forward(*given, ordered=True),
        wrt=0,
        expected_pullback=lambda *given: pullback(*given, ordered=False),
        ordered_pullback=lambda *given: pullback(*given, ordered=True),
    )


def _terms(
    x: Array, target: Array, weight: Array | None, *, ordered: bool
) -> tuple[Array, Array, Array]:
    """The loss and the weight of each element, and which count."""
    dtype = wide(x.dtype) if ordered else np.dtype(np.float64)
    picked = np.take_along_axis(x, target[:, None], 1)[:, 0].astype(dtype)
    shares = np.ones(target.shape, dtype) if weight is None else weight.astype(dtype)[target]
    return -picked * shares, shares, target != _IGNORED


def _result(x: Array, ordered: bool) -> np.dtype[Any]:
    return x.dtype if ordered else np.dtype(np.float64)


def _add(terms: Array) -> Array:
    """The sum of all in panel order, in float64 one of the sums that are right."""
    home = np.zeros(terms.size, np.int64)
    return np.asarray(oracles.panel(np.zeros(1, terms.dtype), home, terms.reshape(-1))[0])
