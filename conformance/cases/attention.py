"""Samples of scaled_dot_product_attention: with a mask, and with a causal one and grouped heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array, values
from conformance.suite.sample import Sample

_OP = "nn.functional.scaled_dot_product_attention"
#: So many keys that a sum over them has several rounds.
_QUERIES, _KEYS, _FEATURES, _OUTPUTS = 7, 300, 4, 3


def samples() -> Mapping[str, Sequence[Sample]]:
    return {_OP: tuple(_samples())}


def _samples() -> Iterator[Sample]:
    mask = values((_QUERIES, _KEYS), np.float32)
    mask[0], mask[1, ::3] = -np.inf, -np.inf
    yield _sample("mask", (*_operands((2,), (2,)), mask), mask, wrt=0)
    causal = np.where(np.tri(_QUERIES, _KEYS, dtype=bool), 0, -np.inf)
    grouped = _operands((2, 4), (2, 2))
    yield _sample("causal", grouped, causal, wrt=1, is_causal=True, enable_gqa=True)
    yield _sample("values", _operands((2,), (2,)), np.zeros(()), wrt=2, scale=0.25)


def _operands(batch: tuple[int, ...], shared: tuple[int, ...]) -> tuple[Array, ...]:
    """Returns a query, and a key and a value with fewer heads."""
    return (
        values((*batch, _QUERIES, _FEATURES), np.float32),
        values((*shared, _KEYS, _FEATURES), np.float32, 1),
        values((*shared, _KEYS, _OUTPUTS), np.float32, 2),
    )


def _sample(
    name: str, arrays: tuple[Array, ...], bias: Array, *, wrt: int, **options: Any
) -> Sample:
    """Returns a sample.

    Args:
        name: The name of the sample.
        arrays: A query, a key, a value and perhaps a mask.
        bias: The numbers that the reference adds to the scores.
        wrt: The position of the array to differentiate with respect to.
        **options: Keywords of the op.
    """
    scale = options.get("scale", _FEATURES**-0.5)
    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": arrays[0].ndim},
        call=lambda ns, *args: ns.nn.functional.scaled_dot_product_attention(*args, **options),
        arrays=arrays,
        expected=lambda q, k, v, *_: _attention(q, k, v, bias, scale)[0],
        wrt=wrt,
        expected_gradient=lambda ct, q, k, v, *_: _gradients(ct, q, k, v, bias, scale)[wrt],
    )


def _attention(q: Array, k: Array, v: Array, bias: Array, scale: float) -> tuple[Array, Array]:
    """Returns the result and the weights, in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, _repeated(k, q), _repeated(v, q)))
    scores = q @ np.swapaxes(k, -1, -2) * scale + bias
    greatest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return weights @ v, weights


def _gradients(
    ct: Array, q: Array, k: Array, v: Array, bias: Array, scale: float
) -> tuple[Array, Array, Array]:
    """Returns the gradients of the query, the key and the value, in float64."""
    ct = ct.astype(np.float64)
    weights = _attention(q, k, v, bias, scale)[1]
    of_weights = ct @ np.swapaxes(_repeated(v, q), -1, -2)
    mean = (weights * of_weights).sum(-1, keepdims=True)
    of_scores = weights * (of_weights - mean) * scale
    of_key = np.swapaxes(of_scores, -1, -2) @ q
    of_value = np.swapaxes(weights, -1, -2) @ ct
    return of_scores @ _repeated(k, q), _added(of_key, k), _added(of_value, v)


def _repeated(shared: Array, query: Array) -> Array:
    """Repeats the heads of a key or a value for the heads of a query that share them."""
    return np.repeat(shared, query.shape[-3] // shared.shape[-3], -3)


def _added(gradient: Array, shared: Array) -> Array:
    """Adds the gradients of repeated heads."""
    groups = gradient.reshape(*shared.shape[:-2], -1, *shared.shape[-2:])
    return np.asarray(groups.sum(-3))
