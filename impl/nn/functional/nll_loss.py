"""impl.nn.functional.nll_loss."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl._primitives.arithmetic import multiply
from impl.nn.functional import _losses

_NAME = "nll_loss"
_OP = f"nn.functional.{_NAME}"


def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """The negative of each element's value for its class, which is to be a logarithm.

    Args:
        input: Shape [classes], [n, classes] or [n, classes, ...], floats.
        target: The classes: shape of ``input`` without the classes, int32, int64 or uint8, each in
            [0, classes) or ``ignore_index``. Under ``jit`` others have a loss of NaN and no
            gradient.
        weight: Shape [classes], dtype of ``input``: what to multiply the loss of each class by.
            Unlike PyTorch's it has a derivative.
        size_average: Deprecated in PyTorch: False is ``reduction="sum"``.
        ignore_index: The target of elements that do not count.
        reduce: Deprecated in PyTorch: False is ``reduction="none"``.
        reduction: ``"none"``; ``"sum"``; or ``"mean"``, the sum divided by that of the elements'
            weights, which is NaN where none counts.

    Returns:
        Shape of ``target`` for the reduction ``"none"``, otherwise 0-d; dtype of ``input``.
        float16 and bfloat16 are computed in float32 and rounded once.

    Raises:
        IndexError: A target is out of range.
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: The number of targets does not fit, or there is no such reduction.

    Source: ``torch.nn.functional.nll_loss``. What the mode does, and the guarantee, are in the
    spec's rows.
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
    amount: Any = None
    if weight is not None:
        share = convert(_losses.weights_of(weight, classes, decision=pullback), wide)
        terms = multiply(terms, share)
        if reduction == "mean":
            amount = _losses.total(jnp.where(counts, share, zero), decision=decision)
    elif reduction == "mean":
        amount = _losses.count(counts, wide)
    return _losses.reduced(
        jnp.where(counts, terms, zero),
        reduction,
        amount,
        shape=input.shape[:1] + input.shape[2:] if input.ndim > 1 else (),
        dtype=input.dtype,
        decision=decision,
    )
