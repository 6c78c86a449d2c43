"""Samples of nll_loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import FEW, Array, indices, values
from conformance.suite.sample import Sample
from spec import oracles

#: The class whose targets do not count.
_IGNORED = 2


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.nll_loss": tuple(_nll_loss())}


def _nll_loss() -> Iterator[Sample]:
    """Yields a weighted mean over images. Some elements do not count."""
    images, weight = values((2, FEW, 35, 36), np.float32), np.abs(values((FEW,), np.float32))
    yield _sample("mean", (images, indices((2, 35, 36)), weight))


def _sample(name: str, arrays: tuple[Array, ...]) -> Sample:
    def call(ns: Any, x: Any, target: Any, weight: Any) -> Any:
        return ns.nn.functional.nll_loss(x, target, weight, ignore_index=_IGNORED)

    def forward(x: Array, target: Array, weight: Array, dtype: Any) -> Array:
        terms, shares, counts = _terms(x, target, weight, dtype)
        return np.asarray(_add(np.where(counts, terms, 0)) / _add(np.where(counts, shares, 0)))

    def gradient(ct: Array, x: Array, target: Array, weight: Array, dtype: Any) -> Array:
        _, shares, counts = _terms(x, target, weight, dtype)
        ct = ct.astype(dtype) / _add(np.where(counts, shares, 0))
        is_target = np.arange(x.shape[1])[:, None, None] == target[:, None]
        return np.where(is_target & counts[:, None], -(ct * shares)[:, None], dtype(0))

    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": arrays[0].ndim, "reduction": "mean"},
        call=call,
        arrays=arrays,
        expected=lambda x, t, w: forward(x, t, w, np.float64),
        ordered=lambda x, t, w: forward(x, t, w, np.float32),
        wrt=0,
        expected_gradient=lambda ct, x, t, w: gradient(ct, x, t, w, np.float64),
        ordered_gradient=lambda ct, x, t, w: gradient(ct, x, t, w, np.float32),
    )


def _terms(x: Array, target: Array, weight: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """Returns the loss and the weight of each element, and whether it counts."""
    picked = np.take_along_axis(x, target[:, None], 1)[:, 0].astype(dtype)
    shares = weight.astype(dtype)[target]
    return -picked * shares, shares, target != _IGNORED


def _add(terms: Array) -> Array:
    """Returns the sum of all terms, in float64 in any order."""
    destination = np.zeros(terms.size, np.int64)
    return np.asarray(oracles.source(np.zeros(1, terms.dtype), destination, terms.reshape(-1))[0])
