"""The part that losses over classes share.

It checks arguments, reads the value of the class of each element, and adds the terms of a loss. For
log probabilities of two elements and three classes, the classes 0 and 2, and equal weights:

    values      [[-0.7, -1.4, -1.4], [-1.6, -1.6, -0.5]]
    pick        [-0.7, -0.5]
    terms       [0.7, 0.5]          reduced: 0.6 by "mean", 1.2 by "sum"
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager, few_integers
from impl._core.lax_functions import where
from impl._core.numerics import convert, fence
from impl._mode.decide import Decision
from impl.ops._indexing import gather

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(
    function: str, reduction: Any, size_average: Any = None, reduce: Any = None
) -> str:
    """Returns the reduction that the arguments name; the last two are deprecated in PyTorch.

    Raises:
        ValueError: The reduction is unknown.
    """
    if size_average is not None or reduce is not None:
        mean_or_sum = "mean" if size_average is None or size_average else "sum"
        reduction = mean_or_sum if reduce is None or reduce else "none"
        eager.refuse()  # A compiled program would warn at its first call alone.
        warnings.warn(
            f"{function}(): size_average and reduce will be deprecated, please use "
            f"reduction={reduction!r} instead",
            UserWarning,
            stacklevel=3,
        )
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{function}(): {reduction} is not a valid value for reduction; allowed are "
            f"{', '.join(map(repr, REDUCTIONS))}"
        )
    return str(reduction)


def floats(function: str, name: str, value: Any) -> jax.Array:
    """Returns ``value`` as a JAX array of floats.

    Raises:
        NotImplementedError: It is of another dtype.
        TypeError: It is not an array.
    """
    array = arguments.array(function, name, value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise NotImplementedError(
            f"{function}(): not implemented for {array.dtype} in argument '{name}'; it takes floats"
        )
    return array


def weight_of(function: str, weight: Any, classes: int) -> jax.Array | None:
    """Returns ``weight`` as a JAX array of shape [classes], or None.

    Raises:
        RuntimeError: It is of another shape.
        TypeError: It is not an array.
    """
    if weight is None:
        return None
    array = arguments.array(function, "weight", weight)
    if array.shape != (classes,):
        raise RuntimeError(
            f"{function}(): weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(array.shape)}"
        )
    return array


def by_class(function: str, value: jax.Array) -> jax.Array:
    """Reshapes [classes] or [n, classes, ...] to [n, classes] or [n, classes, rest].

    The result has no last axis of length 1: with one, a sum over classes takes XLA 50 times as
    long on a CPU.

    Raises:
        ValueError: ``value`` is 0-d.
    """
    if value.ndim == 0:
        raise ValueError(f"{function}(): Expected 1 or more dimensions in 'input' (got 0)")
    n, classes, *rest = value.shape if value.ndim > 1 else (1, *value.shape)
    count = math.prod(rest)
    return value.reshape((n, classes) if count == 1 else (n, classes, count))


def class_targets(
    function: str, target: Any, input: jax.Array, ignore_index: int
) -> tuple[jax.Array, jax.Array]:
    """Returns the class of each element, and whether the element counts.

    Args:
        function: The name of the op, for messages.
        target: The shape of ``input`` without the axis of classes.
        input: Shape [classes] or [n, classes, ...].
        ignore_index: The class of elements that do not count.

    Returns:
        Two arrays of shape [n, 1] or [n, 1, rest]: the classes, 0 for elements that do not count;
        and bools, True for elements that count.

    Raises:
        IndexError: A target is out of range, and its value is known.
        RuntimeError: ``target`` is of another shape, or not of int32, int64 or uint8.
        TypeError: It is not an array.
        ValueError: Its length differs from the length of ``input``.
    """
    target = arguments.native(function, "target", target)
    array = jnp.asarray(target)
    if np.dtype(target.dtype) not in (np.int32, np.int64, np.uint8):
        raise RuntimeError(
            f"{function}(): expected target dtype to be int32, int64 or uint8, but got "
            f"{target.dtype}"
        )
    _check_shape(function, array.shape, input.shape)
    ignore_index = arguments.integer(function, "ignore_index", ignore_index)
    _check_range(function, target, input.shape[min(input.ndim - 1, 1)], ignore_index)
    array = array.astype(jnp.promote_types(array.dtype, jnp.int32))
    n, _, *rest = by_class(function, input).shape
    array = array.reshape(n, 1, *rest)
    limits = jnp.iinfo(array.dtype)
    if not limits.min <= ignore_index <= limits.max:
        return array, jnp.ones(array.shape, bool)
    counts = array != ignore_index
    return where(counts, array, 0), counts


def _check_shape(function: str, target: tuple[int, ...], input: tuple[int, ...]) -> None:
    allowed = [list(input[:1] + input[2:])] if len(input) > 1 else [[], [1]]
    if list(target) in allowed:
        return
    if len(input) == 1 and len(target) == 1:
        raise ValueError(
            f"{function}(): For 1D input, 1D target must have size 1, but got target size: "
            f"{target[0]}"
        )
    if len(input) > 1 and target[:1] != input[:1]:
        raise ValueError(
            f"{function}(): Expected input batch_size ({input[0]}) to match target batch_size "
            f"({target[0] if target else 0})"
        )
    raise RuntimeError(
        f"{function}(): Expected target size {allowed[0]} for an input of shape {list(input)}, got "
        f"{list(target)}"
    )


def _check_range(function: str, target: Any, classes: int, ignore_index: int) -> None:
    def check(values: np.ndarray[Any, Any]) -> None:
        if arguments.within(values, 0, classes):
            return
        wrong = ((values < 0) | (values >= classes)) & (values != ignore_index)
        if np.any(wrong):
            position = tuple(int(i) for i in np.argwhere(wrong)[0])
            allowed = f"0 to {classes - 1} and" if classes else "only"
            raise IndexError(
                f"{function}(): Target {values[position]} is out of bounds, at position "
                f"{list(position)} of argument 'target'; allowed are {allowed} ignore_index, "
                f"{ignore_index}"
            )

    test = functools.partial(few_integers.range_test, 0, classes)
    eager.when_known(check, target, faster=test)


@jax.custom_jvp
def pick(values: jax.Array, classes: jax.Array, counts: jax.Array) -> jax.Array:
    """Returns the value of the class of each element, or 0 if the element does not count.

    A cotangent goes to this class alone. No two cotangents are added, so the gradient needs no
    scatter.

    Args:
        values: Shape [n, classes] or [n, classes, rest].
        classes: Shape [n, 1] or [n, 1, rest]. A class out of range reads NaN.
        counts: Bools of that shape: whether an element counts.

    Returns:
        An array of the shape of ``classes``.
    """
    operands = [array if array.ndim == 3 else array[:, :, None] for array in (values, classes)]
    picked = gather(*operands, pullback=Decision()).reshape(classes.shape)
    return where(counts, picked, jnp.zeros_like(picked))


@pick.defjvp
def _pick_jvp(primals: Any, tangents: Any) -> Any:
    values, classes, counts = primals
    picked = (jax.lax.broadcasted_iota(classes.dtype, values.shape, 1) == classes) & counts
    tangent = where(picked, tangents[0], jnp.zeros_like(tangents[0])).sum(1, keepdims=True)
    return pick(*primals), tangent


def weights_of(weight: jax.Array, classes: jax.Array, *, decision: Decision) -> jax.Array:
    """Returns the weight of the class of each element, in the shape of ``classes``."""
    flat = classes.reshape(1, -1, 1)
    return gather(weight[None, :, None], flat, pullback=decision).reshape(classes.shape)


def reduced(
    terms: jax.Array,
    reduction: str,
    divisor: jax.Array | None,
    *,
    shape: tuple[int, ...],
    dtype: jax.typing.DTypeLike,
) -> jax.Array:
    """Reduces the losses of all elements.

    Args:
        terms: The loss of each element, in the accumulator's dtype.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``.
        divisor: The divisor of a mean, 0-d; None for another reduction.
        shape: The shape of the result for the reduction ``"none"``.
        dtype: The dtype of the result.
    """
    if reduction == "none":
        return convert(terms, dtype).reshape(shape)
    # The terms may not be computed inside of the loop of the sum, one by one.
    total = jnp.sum(fence(terms).reshape(-1))
    return convert(total if divisor is None else total / divisor, dtype)


def count(counts: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the number of elements that count, 0-d."""
    return counts.sum(dtype=jnp.result_type(int)).astype(dtype)
