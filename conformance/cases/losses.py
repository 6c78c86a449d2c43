"""Samples of cross_entropy, nll_loss and ctc_loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.cases._data import Array
from conformance.cases._forms import (
    INF,
    NAN,
    NO_INDEX,
    POINT,
    SCALAR,
    SQUARE,
    at,
    normal,
    spread,
    unlike_torch,
)
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

#: The class whose targets do not count.
_IGNORED = 2


def _cross_entropy(d: Draw) -> Iterator[Sample]:
    """Yields a weighted mean over classes, and a sum over probabilities. Both smooth labels."""
    (count,), classes = d.sizes((1100,), 1), d.few  # XLA adds several elements at once.
    x, weight = d.values((count, classes), np.float32), np.abs(d.values((classes,), np.float32))
    yield _cross_entropy_sample(
        "classes", (x, d.indices((count,)), weight), "mean", ignore_index=_IGNORED
    )
    n, *sizes = d.sizes((2, 5, 6))
    images = d.values((n, classes, *sizes), np.float32)
    yield _cross_entropy_sample("probabilities", (images, np.abs(images[::-1])), "sum")


def _cross_entropy_sample(
    name: str, arrays: tuple[Array, ...], reduction: str, **options: int
) -> Sample:
    def call(ns: Any, x: Any, target: Any, weight: Any = None) -> Any:
        return ns.nn.functional.cross_entropy(
            x, target, weight, reduction=reduction, label_smoothing=0.1, **options
        )

    def expected(x: Array, target: Array, weight: Array | None = None) -> Array:
        share, amount = _shares(x, target, weight)
        return np.asarray(-(_log_softmax(x.astype(np.float64), 1) * share).sum() / amount)

    def gradient(ct: Array, x: Array, target: Array, weight: Array | None = None) -> Array:
        share, amount = _shares(x, target, weight)
        softmax = np.exp(_log_softmax(x.astype(np.float64), 1))
        # It is 0 where nothing counts.
        gradient = ct / amount * (softmax * share.sum(1, keepdims=True) - share)
        return np.asarray(np.nan_to_num(gradient))

    return Sample(
        name=name,
        facts={"reduction": reduction},
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


def _log_softmax(x: Array, dim: int) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(dim, keepdims=True)), x.dtype)


def _nll_loss(d: Draw) -> Iterator[Sample]:
    """Yields a weighted mean over images. Some elements do not count."""

    def call(ns: Any, x: Any, target: Any, weight: Any) -> Any:
        return ns.nn.functional.nll_loss(x, target, weight, ignore_index=_IGNORED)

    def forward(x: Array, target: Array, weight: Array) -> Array:
        terms, shares, counts = _terms(x, target, weight)
        return np.asarray(_add(np.where(counts, terms, 0)) / _add(np.where(counts, shares, 0)))

    def gradient(ct: Array, x: Array, target: Array, weight: Array) -> Array:
        _, shares, counts = _terms(x, target, weight)
        ct = ct / _add(np.where(counts, shares, 0))
        is_target = np.arange(x.shape[1])[:, None, None] == target[:, None]
        return np.where(is_target & counts[:, None], 0 - (ct * shares)[:, None], np.float32(0))

    n, *sizes = d.sizes((2, 35, 36))
    images, weight = d.values((n, d.few, *sizes), np.float32), d.values((d.few,), np.float32)
    yield Sample(
        name="mean",
        facts={"reduction": "mean"},
        call=call,
        arrays=(images, d.indices((n, *sizes)), np.abs(weight)),
        ordered=forward,
        wrt=0,
        ordered_gradient=gradient,
    )


def _terms(x: Array, target: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Returns the loss and the weight of each element, and whether it counts."""
    picked = np.take_along_axis(x, target[:, None], 1)[:, 0]
    shares = weight[target]
    return -picked * shares, shares, target != _IGNORED


def _add(terms: Array) -> Array:
    return oracles.nearest(terms.reshape(-1))


_TARGETS = np.array([[1, 2], [2, 2]], np.int32)
_TARGET_LENGTHS = (2, 2)


def _ctc_loss(d: Draw) -> Iterator[Sample]:
    """Yields a batch of two targets. One repeats a label, and its input ends early.

    The inputs are so long that every blank contributes to a sum.
    """
    (times,) = d.sizes((9,), 5, (9,))
    lengths = times, times - 2
    yield Sample(
        name="padded",
        facts={"reduction": "mean"},
        call=lambda ns, x, t: ns.nn.functional.ctc_loss(x, t, lengths, _TARGET_LENGTHS),
        arrays=(_log_softmax(d.values((times, 2, 3), np.float32), 2), _TARGETS),
        expected=lambda x, t: _mean(x, t, lengths)[0],
        wrt=0,
        expected_gradient=lambda ct, x, t: ct * _mean(x, t, lengths)[1],
    )


def _mean(x: Array, targets: Array, lengths: tuple[int, int]) -> tuple[Array, Array]:
    """Returns the loss, and PyTorch's gradient: the gradient with respect to the logits."""
    losses, gradient = [], np.zeros(x.shape)
    for n, (times, length) in enumerate(zip(lengths, _TARGET_LENGTHS, strict=True)):
        loss, expected = _by_enumeration(x[:times, n].astype(np.float64), targets[n, :length])
        losses.append(loss / length)
        slope = np.exp(x[:times, n].astype(np.float64)) - expected
        gradient[:times, n] = slope / length / len(lengths)
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


_WEIGHT = np.array([0.5, 2, 1.5], np.float32)
_LABELS = np.random.default_rng(8).integers(0, 5, 8)


def _forms_of_losses(*, by_classes_alone: bool) -> Iterator[Form]:
    rng = np.random.default_rng(1)
    shapes = [(4, 3), (3,), (2, 3, 5), (2, 3, 2, 2), (2, 3, 1, 2, 1), (0, 3), (2, 3, 0)]
    options = itertools.product(
        ["none", "mean", "sum"], [None, _WEIGHT], [0.0, 0.2], [-100, 1, "probabilities"]
    )
    for number, (reduction, weight, smoothing, ignored) in enumerate(options):
        keywords: dict[str, Any] = {"reduction": reduction, "weight": weight}
        if ignored != "probabilities":
            keywords["ignore_index"] = ignored
        elif by_classes_alone:
            continue
        if not by_classes_alone:
            keywords["label_smoothing"] = smoothing
        for shape in shapes[number % 7 :: 7]:
            of_targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
            target = np.asarray(rng.integers(0, 3, of_targets))
            if ignored == "probabilities":
                target = rng.random(shape).astype(np.float32)
            x = normal(*shape) * np.float32(1 if by_classes_alone else 10)
            yield form(x, target, **keywords).having(traced=1)


def _forms_of_ctc_loss() -> Iterator[Form]:
    """Yields targets that repeat labels, contain the blank, are empty or do not fit."""
    targets = np.array(
        [[1, 2, 3], [2, 2, 1], [3, 3, 3], [2, 0, 1], [1, 9, 5], [2, 1, 3], [1, 1, 2]]
    )
    lengths = np.array([6, 6, 4, 6, 5, 0, 2]), np.array([3, 2, 3, 3, 1, 0, 2])
    flat = np.concatenate([row[:n] for row, n in zip(targets, lengths[1], strict=True)])
    options = itertools.product(["none", "mean", "sum"], [False, True], [targets, flat])
    for number, (reduction, zero_infinity, chosen) in enumerate(options):
        if number in (1, 3, 4, 6, 9, 11):
            continue  # Each pair of options occurs in the rest.
        x = normal(6, len(targets), 4, seed=number) * np.float32([1, 5][number % 2])
        # Some do not come from log_softmax.
        x = _log_softmax(x, 2) if number % 4 else x
        yield form(x, chosen, *lengths, reduction=reduction, zero_infinity=zero_infinity)
    x, of_two = _log_softmax(normal(4, 2, 5), 2), np.array([[1, 2], [3, 3]])
    # No batch, another blank, and no labels at all.
    yield form(x[:, 0], at(1, 1), np.array(4), at(2), 4)
    for none in (NO_INDEX, NO_INDEX.reshape(2, 0)):
        yield form(x, none, at(4, 3), at(0, 0), reduction="none")
    # The gradient holds for logarithms of probabilities.
    yield form(x, of_two, np.array([4, 4]), np.array([2, 2])).named(
        smooth=False, twice=False, same_bits=False, batch=(0, 1)
    )


def _plain_loss(jax: Any, x: Any, target: Any) -> Any:
    return -jax.numpy.take_along_axis(x, target[:, None], axis=1).mean()


#: Logits that are far apart, or infinite.
_EXTREMES = at([1e4, 1e4 - 1, 0], [-INF, 0, 1], [INF, 0, 1], [-INF, 0, 1]).astype(np.float32)
_X, _T, _P = normal(4, 3), at(0, 2, 1, 0), np.ones((4, 3), np.float32)


def _errors_of_losses() -> Iterator[ErrorInput]:
    """Yields calls that both losses by classes refuse."""
    batches = "input batch_size (4) to match target batch_size (2)"
    yield refused(ValueError, batches, _X, _T[:2])
    yield refused(IndexError, "Target 3 is out of bounds, at position [2]", _X, at(0, 1, 3, 0))
    yield refused(RuntimeError, "int32, int64 or uint8, but got int16", _X, _T.astype(np.int16))
    yield refused(NotImplementedError, "'input'; it takes floats", _X.astype(int), _T)
    yield refused(RuntimeError, "all 3 classes or no classes but got", _X, _T, _WEIGHT[:2])
    narrow = _WEIGHT.astype(np.float16)
    yield refused(RuntimeError, "weight (float16) must have the same dtype", _X, _T, narrow)
    words = "max is not a valid value for reduction"
    yield refused(ValueError, words, _X, _T, reduction="max")


def _errors_of_nll_loss() -> Iterator[ErrorInput]:
    yield from _errors_of_losses()
    yield refused(ValueError, "Expected 1 or more dimensions in 'input' (got 0)", SCALAR, POINT)
    yield refused(ValueError, "1D target must have size 1, but got target size: 4", _X[0], _T)
    yield refused(RuntimeError, "Expected target size [] for", _X[0], SQUARE)
    yield refused(ValueError, "to match target batch_size (0)", _X, POINT)
    yield refused(RuntimeError, "[4] for an input of shape [4, 3], got [4, 1]", _X, _T[:, None])
    yield refused(RuntimeError, "Expected target size [4, 1]", _X[..., None], _T)
    yield refused(IndexError, "allowed are 0 to 2 and ignore_index, -100", _X, at(0, -1, 3, 0))
    yield refused(IndexError, "Target 0 is out of bounds", _X[:, :0], _T)
    yield refused(RuntimeError, "but got float32", _X, _P[:, 0])
    yield refused(NotImplementedError, "complex64", _X.astype(np.complex64), _T)
    yield refused(RuntimeError, "weight tensor of shape: [1, 3]", _X, _T, _WEIGHT[None])
    yield refused(ValueError, "allowed are 'none', 'mean', 'sum'", _X, _T, reduction=None)


def _errors_of_cross_entropy() -> Iterator[ErrorInput]:
    yield from _errors_of_losses()
    yield refused(RuntimeError, "Expected target size [4]", _X, _T[:, None])
    yield refused(RuntimeError, "floating point type for target with class", _X, _P.astype(int))
    yield refused(RuntimeError, "ignore_index is not supported for", _X, _P, ignore_index=1)
    yield refused(RuntimeError, "int32, int64 or uint8, but got float32", _X, _P[:, 0])
    yield refused(RuntimeError, "weight tensor of shape: [1, 3]", _X, _P, _WEIGHT[None])
    yield refused(RuntimeError, "0.0 and 1.0. Got: 1.5", _X, _T, label_smoothing=1.5)
    yield from unlike_torch(
        refused(RuntimeError, "0.0 and 1.0. Got: -0.1", _X, _T, label_smoothing=-0.1),
        refused(RuntimeError, "Got: nan", _X, _T, label_smoothing=NAN),
        refused(ValueError, "1 or more dimensions in 'input' (got 0)", SCALAR, POINT),
    )


def _errors_of_ctc_loss() -> Iterator[ErrorInput]:
    """Yields calls with labels, lengths or shapes that do not fit; some have a flat target."""
    x, t, flat = _log_softmax(normal(6, 2, 4), 2), at([1, 2, 2], [2, 3, 1]), at(1, 2, 2, 2, 3)
    given = inputs, lengths = at(6, 5), at(3, 2)
    yield refused(RuntimeError, "to have value at most 6, but got value 7", x, t, at(7, 5), lengths)
    yield refused(RuntimeError, "at least 0, but got value -1", x, t, at(-1, 5), lengths)
    yield refused(RuntimeError, "got value -2 at position 1", x, t, inputs, at(3, -2))
    yield refused(RuntimeError, "size at least 4, the greatest of", x, t, inputs, at(4, 2))
    yield refused(RuntimeError, "size 6, the sum of target_lengths", x, flat, inputs, at(3, 3))
    yield refused(RuntimeError, "dimension 0, but got size 5", x, flat, inputs, at(3, 1))
    yield refused(RuntimeError, "input_lengths must be of size batch_size, 2", x, t, at(6), lengths)
    yield refused(RuntimeError, "target_lengths must be of size batch_", x, t, (6, 5), (3, 2, 1))
    yield refused(RuntimeError, "input_lengths must be integral", x, t, at(6.0, 5.0), lengths)
    yield refused(RuntimeError, "must be integral, but got bool", x, t, inputs, lengths > 2)
    yield refused(TypeError, "'input_lengths[0]' must be int", x, t, (6.0, 5.0), (3, 2))
    yield refused(RuntimeError, "Expected targets of shape [2, S]", x, t[:1], inputs, lengths)
    yield refused(RuntimeError, "but got shape [1, 2, 3]", x, t[None], inputs, lengths)
    yield refused(RuntimeError, "but got shape []", x, t[0, 0], inputs, lengths)
    yield refused(RuntimeError, "must have 2 or 3 dimensions", x[0, 0], t, inputs, lengths)
    yield refused(RuntimeError, "not be empty, but got shape [0, 2, 4]", x[:0], t, inputs, lengths)
    yield refused(NotImplementedError, "it takes floats", x.astype(int), t, inputs, lengths)
    words = "blank must be in label range, 0 to 3, but got"
    yield from (refused(RuntimeError, f"{words} {n}", x, t, inputs, lengths, n) for n in (4, -1))
    words = "max is not a valid value for reduction"
    yield refused(ValueError, words, x, t, inputs, lengths, reduction="max")
    yield from unlike_torch(
        # PyTorch reads beyond the end of an array, or accepts floats as labels.
        refused(IndexError, "Target 4 is out of bounds, at position [0, 1]", x, t + 2, *given),
        refused(IndexError, "Target -1 is out of bounds", x, flat - 2, *given),
        refused(RuntimeError, "integral", x, t.astype(np.float32), *given),
    )


OPS = (
    OpInfo(
        "nn.functional.cross_entropy",
        _cross_entropy,
        lambda: [
            *_forms_of_losses(by_classes_alone=False),
            form(
                normal(4, 3),
                np.random.default_rng(0).random((4, 3), np.float32),
                _WEIGHT,
                label_smoothing=0.1,
            ),
            form(_EXTREMES, at(0, 0, 1, 2), reduction="none"),
            form(_EXTREMES[:1], np.eye(1, 3, dtype=np.float32)).having(traced=1),
            form(spread(8, 5) / 8, _LABELS, label_smoothing=0.1).named(same_bits=False),
        ],
        _errors_of_cross_entropy,
        plain=lambda jax, x, target: _plain_loss(jax, jax.nn.log_softmax(x, axis=1), target),
        wide=9,
    ),
    OpInfo(
        "nn.functional.ctc_loss",
        _ctc_loss,
        _forms_of_ctc_loss,
        _errors_of_ctc_loss,
        wide=4,
        tolerance=3,
    ),
    OpInfo(
        "nn.functional.nll_loss",
        _nll_loss,
        lambda: [
            *_forms_of_losses(by_classes_alone=True),
            *(
                # No element counts.
                form(_X, at(*[-100] * 4), _WEIGHT, reduction=reduction).having(traced=1)
                for reduction in ("mean", "sum")
            ),
            form(_X * np.float32(NAN), at(*[-100] * 4), reduction="none"),
            form(spread(8, 5), _LABELS).named(same_bits=False),
        ],
        _errors_of_nll_loss,
        plain=_plain_loss,
        wide=9,
    ),
)
