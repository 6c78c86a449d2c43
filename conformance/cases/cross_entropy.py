"""Samples of cross_entropy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import FEW, Array, indices, values
from conformance.suite.sample import Sample

#: The class whose targets do not count.
_IGNORED = 2
#: A number of elements of which XLA adds several at once.
_COUNT = 1100


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.cross_entropy": tuple(_cross_entropy())}


def _cross_entropy() -> Iterator[Sample]:
    """Yields a weighted mean over classes, and a sum over probabilities. Both smooth labels."""
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

    def gradient(ct: Array, x: Array, target: Array, weight: Array | None = None) -> Array:
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
        expected_gradient=gradient,
    )


def _shares(x: Array, target: Array, weight: Array | None) -> tuple[Array, float]:
    """Returns the share of each class of each element in the loss, and the divisor of a mean."""
    count, amount = x.shape[1], 1.0
    share = target.astype(np.float64)
    if target.ndim < x.ndim:
        share = np.eye(count)[target]
    share = share * 0.9 + 0.1 / count
    if weight is not None:
        wide = weight.astype(np.float64)
        counts = target != _IGNORED
        amount = float(wide[target][counts].sum())
        of_target = np.eye(count)[target] * 0.9 * wide[target][:, None]
        share = np.where(counts[:, None], of_target + 0.1 / count * wide, 0)
    return share, amount


def _log_softmax(x: Array) -> Array:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
