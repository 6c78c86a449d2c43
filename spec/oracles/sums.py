<<<<<<< HEAD
"""Oracle of the order in which windows add."""
=======
"""Oracles of the orders in which convolutions, recurrent nets and attention add."""
>>>>>>> 1197baade74b68860928062a59a0f98b8185c4f9

from __future__ import annotations

import numpy as np

from spec.oracles._numerics import Array


<<<<<<< HEAD
def window(values: Array, index: Array, weight: Array | None = None) -> Array:
    """Sums windows along the first axis, in window order; compose it over dimensions.

    Args:
        values: Shape [n, ...].
        index: The index of each term of each window, shape [m, terms]; -1 for a missing term.
        weight: The factor of each term, of the same shape.

    Returns:
        Shape [m, ...], of the dtype of ``values``. Widen float16 and bfloat16 before the first
        dimension, and round them after the last.
    """
    out = np.zeros((len(index), *values.shape[1:]), values.dtype)
    for m, indices in enumerate(index):
        terms = [
            values[i] if weight is None else values[i] * weight[m, t].astype(values.dtype)
            for t, i in enumerate(indices)
            if i >= 0
        ]
        if terms:
            out[m] = functools.reduce(np.add, terms)
    return out
=======
def taps(terms: Array, *, image: bool = False) -> Array:
    """Sums over taps, in tap order, for terms whose sum over a run is exact in every order.

    Args:
        terms: The contribution of each tap and channel, shape [taps, channels, ...].
        image: Whether the image is computed, so that each run is one tap.

    Returns:
        Shape [...], of the dtype of ``terms``.
    """
    least = load().orders["taps"].parameters["terms"]
    run = 1 if image else -(-least // terms.shape[1])
    total = np.zeros(terms.shape[2:], terms.dtype)
    for start in range(0, len(terms), run):
        total = total + terms[start : start + run].sum(axis=(0, 1))
    return total


def steps(terms: Array) -> Array:
    """Sums over steps, in the order of steps.

    Args:
        terms: The contribution of each step, in the order in which a net takes the steps, shape
            [steps, ...]. The sum that makes the contribution of a step is exact in every order.

    Returns:
        Shape [...], of the dtype of ``terms``.
    """
    total = np.zeros(terms.shape[1:], terms.dtype)
    for term in terms[::-1]:
        total = total + term
    return total


def halves(terms: Array) -> Array:
    """Sums along the first axis, in the order of halves.

    Args:
        terms: Shape [n, ...]. Widen float16 and bfloat16 before, and round them after.

    Returns:
        Shape [...], of the dtype of ``terms``.
    """
    if len(terms) == 0:
        return np.full(terms.shape[1:], -0.0, terms.dtype)
    while len(terms) > 1:
        half = -(-len(terms) // 2)
        later = terms[half:]
        terms = np.concatenate([terms[: len(later)] + later, terms[len(later) : half]])
    return np.asarray(terms[0])
>>>>>>> 1197baade74b68860928062a59a0f98b8185c4f9
