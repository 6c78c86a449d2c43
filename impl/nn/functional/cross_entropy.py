"""impl.nn.functional.cross_entropy."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _losses

_NAME = "cross_entropy"
_OP = f"nn.functional.{_NAME}"
_DEFAULT_IGNORE = -100


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
    """The cross entropy between targets and the softmax of ``input``.

    Args:
        input: Shape [classes], [n, classes] or [n, classes, ...], floats.
        target: Classes: shape of ``input`` without the classes, int32, int64 or uint8, each in
            [0, classes) or ``ignore_index``; under ``jit`` others have a loss of NaN. Or the
            probability of each class: shape of ``input``, floats.
        weight: Shape [classes]: what to multiply the loss of each class by; of the dtype of
            ``input`` where targets are classes. Unlike PyTorch's it has a derivative.
        size_average: Deprecated in PyTorch: False is ``reduction="sum"``.
        ignore_index: The target of elements that do not count, where targets are classes.
        reduce: Deprecated in PyTorch: False is ``reduction="none"``.
        reduction: ``"none"``; ``"sum"``; or ``"mean"``, the sum divided by that of the elements'
            weights, or for probabilities by the number of elements.
        label_smoothing: How much of each target is spread evenly over all classes, from 0 to 1.

    Returns:
        Shape of ``input`` without the classes for the reduction ``"none"``, otherwise 0-d; dtype
        of ``input``, or that which it and floating arguments promote to. float16 and bfloat16 are
        computed in float32 and rounded once.

    Raises:
        IndexError: A target is out of range.
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; ``label_smoothing`` is out of range;
            ``ignore_index`` is given for probabilities; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: The number of targets does not fit, or there is no such reduction.

    Source: ``torch.nn.functional.cross_entropy``. What the mode does, and the guarantee, are in
    the spec's rows.
    """
    reduction = _losses.reduction_of(_NAME, reduction, size_average, reduce)
    given = _losses.floats(_NAME, "input", input)
    values = _losses.by_class(_NAME, given)
    weight = _losses.weight_of(_NAME, weight, values.shape[1])
    smoothing = _smoothing(label_smoothing)
    facts = arguments.facts(given, reduction=reduction)
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    values = alert_pullback(alert(values, decision), pullback)
    of_probabilities = given.shape == np.shape(target)
    if of_probabilities:
        share = _probabilities(target, given, ignore_index).reshape(values.shape)
        dtype = _promoted(given, share, weight)
        wide = accumulator(dtype)
        terms = _by_probability(_Logs(values, wide), convert(share, wide), weight, smoothing)
        amount = jnp.asarray(terms.size if values.size else 0, wide)
    else:
        classes, counts = _losses.class_targets(_NAME, target, given, ignore_index)
        if weight is not None:
            arguments.same_dtype(_NAME, given, weight=weight)
        dtype, wide = given.dtype, accumulator(given.dtype)
        terms, weights = _by_class(
            _Logs(values, wide), classes, counts, weight, smoothing, pullback
        )
        terms = jnp.where(counts, terms, jnp.zeros((), wide))
        if weights is None:
            amount = _losses.count(counts, wide)
        else:
            weights = jnp.where(counts, weights, jnp.zeros((), wide))
            amount = _losses.total(weights, decision=decision)
    return _losses.reduced(
        terms,
        reduction,
        amount if reduction == "mean" else None,
        shape=given.shape[:1] + given.shape[2:] if given.ndim > 1 else (),
        dtype=dtype,
        decision=decision,
    )


class _Logs:
    """Logarithms of the softmax of values, normed along the second axis."""

    def __init__(self, values: jax.Array, dtype: jax.typing.DTypeLike) -> None:
        self.values = convert(values, dtype)
        self.greatest = jax.lax.stop_gradient(self.values.max(1, keepdims=True, initial=-jnp.inf))
        self.log_of_sum = _log_of_sum(self.values, self.greatest)

    def all(self) -> jax.Array:
        """Of every class. In this order, or small differences of large values are lost."""
        return self.values - self.greatest - self.log_of_sum

    def of(self, classes: jax.Array, counts: jax.Array) -> jax.Array:
        """Of one class for each element that counts."""
        return _losses.pick(self.values, classes, counts) - self.greatest - self.log_of_sum


@jax.custom_jvp
def _log_of_sum(values: jax.Array, greatest: jax.Array) -> jax.Array:
    """The logarithm of the sum of ``exp(values - greatest)`` along the second axis, kept."""
    return jnp.log(_sum(jnp.exp(values - greatest)))


@_log_of_sum.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    # As PyTorch's: an exponential of the result, where JAX's own would divide two.
    values, greatest = primals
    out = _log_of_sum(values, greatest)
    softmax = jnp.exp(values - greatest - out)
    return out, _sum(softmax * tangents[0])


def _sum(values: jax.Array) -> jax.Array:
    return values.sum(1, keepdims=True)


def _by_class(
    logs: _Logs,
    classes: jax.Array,
    counts: jax.Array,
    weight: jax.Array | None,
    smoothing: float,
    pullback: Decision,
) -> tuple[jax.Array, jax.Array | None]:
    """The loss of each element, and its weight."""
    terms, weights = -logs.of(classes, counts), None
    if weight is not None:
        wide = convert(weight, terms.dtype)
        weights = _losses.weights_of(wide, classes, decision=pullback)
        terms = terms * weights
    if smoothing > 0:
        every = logs.all() if weight is None else logs.all() * _beside(wide, logs.values)
        even = -_sum(every)
        terms = (1 - smoothing) * terms + (smoothing / every.shape[1]) * even
    return terms, weights


def _by_probability(
    logs: _Logs, share: jax.Array, weight: jax.Array | None, smoothing: float
) -> jax.Array:
    """The loss of each element."""
    if smoothing > 0:
        share = share * (1 - smoothing) + smoothing / max(share.shape[1], 1)
    each = logs.all() * share
    if weight is not None:
        each = each * _beside(convert(weight, each.dtype), each)
    return -_sum(each)


def _beside(weight: jax.Array, values: jax.Array) -> jax.Array:
    """What each class has, in a shape that goes with that of ``values``."""
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
    share = arguments.array(_NAME, "target", target)
    if not jnp.issubdtype(share.dtype, jnp.floating):
        raise RuntimeError(
            f"{_NAME}(): Expected floating point type for target with class probabilities, which "
            f"one of the shape of input, {list(input.shape)}, is; got {share.dtype}"
        )
    if arguments.integer(_NAME, "ignore_index", ignore_index) != _DEFAULT_IGNORE:
        raise RuntimeError(
            f"{_NAME}(): ignore_index is not supported for floating point target, but got "
            f"{ignore_index}"
        )
    return share
