"""Samples of ctc_loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array, values
from conformance.suite.sample import Sample

_TIMES, _CLASSES = 9, 3
_TARGETS = np.array([[1, 2], [2, 2]], np.int32)
_INPUT_LENGTHS, _TARGET_LENGTHS = (9, 7), (2, 2)


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.ctc_loss": tuple(_ctc_loss())}


def _ctc_loss() -> Iterator[Sample]:
    """Yields a batch of two targets. One repeats a label, and its input ends early.

    The inputs are so long that every blank contributes to a sum.
    """
    yield Sample(
        name="padded",
        facts={"dtype": "floating", "input_ndim": 3, "reduction": "mean"},
        call=lambda ns, x, t: ns.nn.functional.ctc_loss(x, t, _INPUT_LENGTHS, _TARGET_LENGTHS),
        arrays=(_log_softmax(values((_TIMES, 2, _CLASSES), np.float32)), _TARGETS),
        expected=lambda x, t: _mean(x, t)[0],
        wrt=0,
        expected_gradient=lambda ct, x, t: ct * _mean(x, t)[1],
    )


def _mean(x: Array, targets: Array) -> tuple[Array, Array]:
    """Returns the loss, and PyTorch's gradient: the gradient with respect to the logits."""
    losses, gradient = [], np.zeros(x.shape)
    for n, (times, length) in enumerate(zip(_INPUT_LENGTHS, _TARGET_LENGTHS, strict=True)):
        loss, expected = _by_enumeration(x[:times, n].astype(np.float64), targets[n, :length])
        losses.append(loss / length)
        slope = np.exp(x[:times, n].astype(np.float64)) - expected
        gradient[:times, n] = slope / length / len(_INPUT_LENGTHS)
    return np.asarray(np.mean(losses)), gradient


def _by_enumeration(x: Array, target: Array) -> tuple[float, Array]:
    """Returns the loss of a target, and the expected count of each class at each time.

    Enumerates every path through the classes.
    """
    likelihood, expected = 0.0, np.zeros(x.shape)
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        if [label for label, _ in itertools.groupby(path) if label] != list(target):
            continue
        probability = float(np.exp(x[np.arange(len(x)), list(path)].sum()))
        likelihood += probability
        expected[np.arange(len(x)), list(path)] += probability
    return -float(np.log(likelihood)), expected / likelihood


def _log_softmax(x: Array) -> Any:
    return (x - np.log(np.exp(x).sum(2, keepdims=True))).astype(x.dtype)
