"""The op ``nll_loss``: a loss of log-probabilities against classes.

``_losses`` checks the arguments, reads the values of the classes and reduces the terms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _losses

_NAME = "nll_loss"
_OP = f"nn.functional.{_NAME}"


@eager.compiled
def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Computes the negative log-likelihood of the target of each element.

    Args:
        input: Logarithms of probabilities: shape [classes], [n, classes] or [n, classes, ...],
            floats.
        target: The classes: the shape of ``input`` without the axis of classes; int32, int64 or
            uint8; each in [0, classes) or equal to ``ignore_index``. Under ``jit``, where values
            are unknown, the loss of any other target is NaN, and it has no gradient.
        weight: Shape [classes], in the dtype of ``input``: a factor for the loss of each class. It
            has a derivative, which PyTorch's does not have.
        size_average: Deprecated in PyTorch: False means ``reduction="sum"``.
        ignore_index: The target of elements that do not count.
        reduce: Deprecated in PyTorch: False means ``reduction="none"``.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``. A mean is the sum divided by the sum of the
            weights of the elements that count; it is NaN if no element counts.

    Returns:
        For the reduction ``"none"``, an array of the shape of ``target``; otherwise 0-d. Its dtype
        is the dtype of ``input``. float16 and bfloat16 are computed in float32 and rounded once.

    Raises:
        IndexError: A target is out of range.
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: The number of targets does not fit, or the reduction is unknown.

    Source: ``torch.nn.functional.nll_loss``. The spec's rows state what the mode does, and the
    guarantee.
    """
    reduction = _losses.reduction_of(_NAME, reduction, size_average, reduce)
    input = _losses.floats(_NAME, "input", input)
    values = _losses.by_class(_NAME, input)
    classes, counts = _losses.class_targets(_NAME, target, input, ignore_index)
    weight = _losses.weight_of(_NAME, weight, values.shape[1])
    if weight is not None:
        arguments.same_dtype(_NAME, input, weight=weight)
    facts = arguments.facts(input, reduction=reduction)
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    values = alert_pullback(alert(values, decision), pullback)
    wide = accumulator(input.dtype)
    terms = -convert(_losses.pick(values, classes, counts), wide)
    zero = jnp.zeros((), wide)
    divisor: Any = None
    if weight is not None:
        weights = convert(_losses.weights_of(weight, classes, decision=pullback), wide)
        terms = terms * weights
        if reduction == "mean":
            divisor = jnp.sum(where(counts, weights, zero).reshape(-1))
    elif reduction == "mean":
        divisor = _losses.count(counts, wide)
    return _losses.reduced(
        where(counts, terms, zero),
        reduction,
        divisor,
        shape=input.shape[:1] + input.shape[2:] if input.ndim > 1 else (),
        dtype=input.dtype,
    )
