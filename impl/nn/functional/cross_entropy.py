"""The op ``cross_entropy``: a loss of logits against classes or probabilities of classes.

``_losses`` checks the arguments and reduces the terms. This module computes log-softmax and terms.
The greatest logit is subtracted before exponentials are added ("log-sum-exp"), so that none
overflows: the losses below are the same if 1000 is added to all logits::

    logits                [log 2, 0, 0]           [0, 0, log 2]
    softmax               [0.5, 0.25, 0.25]       [0.25, 0.25, 0.5]
    target                0                       1
    loss                  -log 0.5 = 0.693        -log 0.25 = 1.386      their mean is 1.040
    gradient of the sum   [-0.5, 0.25, 0.25]      [0.25, -0.75, 0.5]
"""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _losses

_NAME = "cross_entropy"
_OP = f"nn.functional.{_NAME}"
_DEFAULT_IGNORE = -100


@eager.compiled
def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = _DEFAULT_IGNORE,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> jax.Array:
    """Computes the cross entropy between targets and the softmax of ``input``.

    Args:
        input: Shape [classes], [n, classes] or [n, classes, ...], floats.
        target: Either classes: the shape of ``input`` without the axis of classes; int32, int64 or
            uint8; each in [0, classes) or equal to ``ignore_index``. Under ``jit``, where values
            are unknown, the loss of any other target is NaN. Or the probability of each class: the
            shape of ``input``, floats.
        weight: Shape [classes], a factor for the loss of each class. If targets are classes, it
            has the dtype of ``input``. It has a derivative, which PyTorch's does not have.
        size_average: Deprecated in PyTorch: False means ``reduction="sum"``.
        ignore_index: The target of elements that do not count. Only if targets are classes.
        reduce: Deprecated in PyTorch: False means ``reduction="none"``.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``. For classes, a mean is the sum divided by
            the sum of the weights of the elements; for probabilities, by the number of elements.
        label_smoothing: The share of each target that is spread evenly over all classes, from 0
            to 1.

    Returns:
        For the reduction ``"none"``, an array of the shape of ``input`` without the axis of
        classes; otherwise 0-d. Its dtype is the dtype of ``input``; with probabilities, it is
        promoted from ``input``, ``target`` and ``weight``. float16 and bfloat16 are computed in
        float32 and rounded once.

    Raises:
        IndexError: A target is out of range.
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; ``label_smoothing`` is out of range;
            ``ignore_index`` is given for probabilities; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: The number of targets does not fit, or the reduction is unknown.

    Source: ``torch.nn.functional.cross_entropy``. The spec's rows state what the mode does, and
    the guarantee.
    """
    reduction = _losses.reduction_of(_NAME, reduction, size_average, reduce)
    logits = _losses.floats(_NAME, "input", input)
    values = _losses.by_class(_NAME, logits)
    weight = _losses.weight_of(_NAME, weight, values.shape[1])
    smoothing = _smoothing(label_smoothing)
    facts = arguments.facts(logits)
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    values = alert_pullback(alert(values, decision), pullback)
    if logits.shape == np.shape(target):
        probabilities = _probabilities(target, logits, ignore_index).reshape(values.shape)
        dtype = _promoted(logits, probabilities, weight)
        wide = accumulator(dtype)
        log_softmax = _LogSoftmax(values, wide)
        terms = _terms_of_probabilities(
            log_softmax, convert(probabilities, wide), weight, smoothing
        )
        divisor = jnp.asarray(terms.size if values.size else 0, wide)
    else:
        classes, counts = _losses.class_targets(_NAME, target, logits, ignore_index)
        if weight is not None:
            arguments.same_dtype(_NAME, logits, weight=weight)
        dtype, wide = logits.dtype, accumulator(logits.dtype)
        log_softmax = _LogSoftmax(values, wide)
        terms, weights = _terms_of_classes(
            log_softmax, classes, counts, weight, smoothing, pullback
        )
        terms = where(counts, terms, jnp.zeros((), wide))
        if weights is None:
            divisor = _losses.count(counts, wide)
        else:
            weights = where(counts, weights, jnp.zeros((), wide))
            divisor = jnp.sum(weights.reshape(-1))
    return _losses.reduced(
        terms,
        reduction,
        divisor if reduction == "mean" else None,
        shape=logits.shape[:1] + logits.shape[2:] if logits.ndim > 1 else (),
        dtype=dtype,
    )


class _LogSoftmax:
    """The logarithm of the softmax of values along the second axis, the axis of classes."""

    def __init__(self, values: jax.Array, dtype: jax.typing.DTypeLike) -> None:
        self.values = convert(values, dtype)
        self.greatest = jax.lax.stop_gradient(self.values.max(1, keepdims=True, initial=-jnp.inf))
        self.log_of_sum = _log_of_sum(self.values, self.greatest)

    def all_classes(self) -> jax.Array:
        """Returns the logarithms of all classes.

        The greatest value is subtracted first, so that small differences of large values stay.
        """
        return self.values - self.greatest - self.log_of_sum

    def of(self, classes: jax.Array, counts: jax.Array) -> jax.Array:
        """Returns the logarithm of one class for each element that counts."""
        return _losses.pick(self.values, classes, counts) - self.greatest - self.log_of_sum


@jax.custom_jvp
def _log_of_sum(values: jax.Array, greatest: jax.Array) -> jax.Array:
    """Returns ``log(sum(exp(values - greatest)))`` along the second axis, with length 1 there."""
    return jnp.log(_sum(jnp.exp(values - greatest)))


@_log_of_sum.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    # As in PyTorch, softmax is the exponential of log-softmax. JAX's derivative would be a quotient
    # of two exponentials.
    values, greatest = primals
    out = _log_of_sum(values, greatest)
    softmax = jnp.exp(values - greatest - out)
    return out, _sum(softmax * tangents[0])


def _sum(values: jax.Array) -> jax.Array:
    return values.sum(1, keepdims=True)


def _terms_of_classes(
    log_softmax: _LogSoftmax,
    classes: jax.Array,
    counts: jax.Array,
    weight: jax.Array | None,
    smoothing: float,
    pullback: Decision,
) -> tuple[jax.Array, jax.Array | None]:
    """Returns the loss of each element, and its weight if there are weights."""
    terms, weights = -log_softmax.of(classes, counts), None
    if weight is not None:
        wide = convert(weight, terms.dtype)
        weights = _losses.weights_of(wide, classes, decision=pullback)
        terms = terms * weights
    if smoothing > 0:
        logs = log_softmax.all_classes()
        if weight is not None:
            logs = logs * _along_classes(wide, logs)
        terms = (1 - smoothing) * terms + (smoothing / logs.shape[1]) * -_sum(logs)
    return terms, weights


def _terms_of_probabilities(
    log_softmax: _LogSoftmax,
    probabilities: jax.Array,
    weight: jax.Array | None,
    smoothing: float,
) -> jax.Array:
    """Returns the loss of each element."""
    if smoothing > 0:
        uniform = smoothing / max(probabilities.shape[1], 1)
        probabilities = probabilities * (1 - smoothing) + uniform
    products = log_softmax.all_classes() * probabilities
    if weight is not None:
        products = products * _along_classes(convert(weight, products.dtype), products)
    return -_sum(products)


def _along_classes(weight: jax.Array, values: jax.Array) -> jax.Array:
    """Reshapes [classes] so that it broadcasts along the second axis of ``values``."""
    return weight.reshape(1, -1, *[1] * (values.ndim - 2))


def _promoted(*values: jax.Array | None) -> np.dtype:
    return jnp.result_type(*(value.dtype for value in values if value is not None))


def _smoothing(value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(
            f"{_NAME}(): argument 'label_smoothing' must be float, not {type(value).__name__}"
        )
    smoothing = float(value)
    if not 0 <= smoothing <= 1:
        raise RuntimeError(
            f"{_NAME}(): label_smoothing must be between 0.0 and 1.0. Got: {smoothing}"
        )
    return smoothing


def _probabilities(target: Any, input: jax.Array, ignore_index: int) -> jax.Array:
    probabilities = arguments.array(_NAME, "target", target)
    if not jnp.issubdtype(probabilities.dtype, jnp.floating):
        raise RuntimeError(
            f"{_NAME}(): Expected floating point type for target with class probabilities, which "
            f"one of the shape of input, {list(input.shape)}, is; got {probabilities.dtype}"
        )
    if arguments.integer(_NAME, "ignore_index", ignore_index) != _DEFAULT_IGNORE:
        raise RuntimeError(
            f"{_NAME}(): ignore_index is not supported for floating point target, but got "
            f"{ignore_index}"
        )
    return probabilities
