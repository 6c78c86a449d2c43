"""Calls of cross_entropy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, Array, indices, values

#: Targets of this class do not count.
_IGNORED = 2
#: Enough elements for two panels.
_COUNT = 1100


def samples() -> Iterator[Sample]:
    """A mean by weight over classes, smoothed; and a sum over probabilities of images."""
    x, weight = values((_COUNT, FEW), np.float32), np.abs(values((FEW,), np.float32))
    yield _sample("classes", (x, indices((_COUNT,)), weight), "mean", ignore_index=_IGNORED)
    images = values((2, FEW, 5, 6), np.float32)
    yield _sample("probabilities", (images, np.abs(images[::-1])), "sum")


def _sample(name: str, arrays: tuple[Array, ...], reduction: str, **options: int) -> Sample:
    def call(ns: Any, x: Any, target: Any, weight: Any = None) -> Any:
        return ns.nn.functional.cross_entropy(
            x, target, weight, reduction=reduction, label_smoothing=0.1, **options
        )

    def expected(x: Array, target: Array, weight: Array | None = None) -> Array:
        share, amount = _shares(x, target, weight)
        return np.asarray(-(_log_softmax(x) * share).sum() / amount)

    def pullback(ct: Array, x: Array, target: Array, weight: Array | None = None) -> Array:
        share, amount = _shares(x, target, weight)
        softmax = np.exp(_log_softmax(x))
        return np.asarray(ct / amount * (softmax * share.sum(1, keepdims=True) - share))

    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": arrays[0].ndim, "reduction": reduction},
        call=call,
        arrays=arrays,
        expected=expected,
        wrt=0,
        expected_pullback=pullback,
    )


def _shares(x: Array, target: Array, weight: Array | None) -> tuple[Array, float]:
    """How much each class of each element has in the loss, and what a mean divides by."""
    count, amount = x.shape[1], 1.0
    share = target.astype(np.float64)
    if target.ndim < x.ndim:
        share = np.eye(count)[target]
    share = share * 0.9 + 0.1 / count
    if weight is not None:
        each = weight.astype(np.float64)
        kept = target != _IGNORED
        amount = float(each[target][kept].sum())
        own = np.eye(count)[target] * 0.9 * each[target][:, None]
        share = np.where(kept[:, None], own + 0.1 / count * each, 0)
    return share, amount


def _log_softmax(x: Array) -> Array:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
