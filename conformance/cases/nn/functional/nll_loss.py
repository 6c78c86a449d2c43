"""Calls of nll_loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, Array, indices, values
from spec import oracles

#: Targets of this class do not count.
_IGNORED = 2


def samples() -> Iterator[Sample]:
    """A mean by weight over images, with elements that do not count."""
    images, weight = values((2, FEW, 35, 36), np.float32), np.abs(values((FEW,), np.float32))
    yield _sample("mean", (images, indices((2, 35, 36)), weight))


def _sample(name: str, arrays: tuple[Array, ...]) -> Sample:
    def call(ns: Any, x: Any, target: Any, weight: Any) -> Any:
        return ns.nn.functional.nll_loss(x, target, weight, ignore_index=_IGNORED)

    def forward(x: Array, target: Array, weight: Array, dtype: Any) -> Array:
        terms, shares, kept = _terms(x, target, weight, dtype)
        return np.asarray(_add(np.where(kept, terms, 0)) / _add(np.where(kept, shares, 0)))

    def pullback(ct: Array, x: Array, target: Array, weight: Array, dtype: Any) -> Array:
        _, shares, kept = _terms(x, target, weight, dtype)
        ct = ct.astype(dtype) / _add(np.where(kept, shares, 0))
        ours = np.arange(x.shape[1])[:, None, None] == target[:, None]
        return np.where(ours & kept[:, None], -(ct * shares)[:, None], dtype(0))

    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": arrays[0].ndim, "reduction": "mean"},
        call=call,
        arrays=arrays,
        expected=lambda x, t, w: forward(x, t, w, np.float64),
        ordered=lambda x, t, w: forward(x, t, w, np.float32),
        wrt=0,
        expected_pullback=lambda ct, x, t, w: pullback(ct, x, t, w, np.float64),
        ordered_pullback=lambda ct, x, t, w: pullback(ct, x, t, w, np.float32),
    )


def _terms(x: Array, target: Array, weight: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """The loss and the weight of each element, and which count."""
    picked = np.take_along_axis(x, target[:, None], 1)[:, 0].astype(dtype)
    shares = weight.astype(dtype)[target]
    return -picked * shares, shares, target != _IGNORED


def _add(terms: Array) -> Array:
    """The sum of all in panel order, in float64 one of the sums that are right."""
    home = np.zeros(terms.size, np.int64)
    return np.asarray(oracles.panel(np.zeros(1, terms.dtype), home, terms.reshape(-1))[0])
