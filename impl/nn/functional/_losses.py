"""What losses over classes share: checks of their arguments, reading by class, and reduction."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.numerics import convert, fence
from impl._mode.decide import Decision
from impl._primitives.arithmetic import divide
from impl._primitives.gather import gather
from impl._primitives.scatter_accumulate import scatter_accumulate

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(
    function: str, reduction: Any, size_average: Any = None, reduce: Any = None
) -> str:
    """The reduction that the arguments name, of which the last two are deprecated in PyTorch.

    Raises:
        ValueError: There is no such reduction.
    """
    if size_average is not None or reduce is not None:
        mean_or_sum = "mean" if size_average is None or size_average else "sum"
        reduction = mean_or_sum if reduce is None or reduce else "none"
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
    """``value`` as a JAX array of floats.

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
    """``weight``, one for each class, or None.

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
    """``value``, of shape [classes] or [n, classes, ...], as [n, classes] or [n, classes, rest].

    There is no axis of 1 at the end: on a CPU, XLA takes 50 times as long to add up before one.

    Raises:
        ValueError: It is 0-d.
    """
    if value.ndim == 0:
        raise ValueError(f"{function}(): Expected 1 or more dimensions in 'input' (got 0)")
    n, classes, *rest = value.shape if value.ndim > 1 else (1, *value.shape)
    count = math.prod(rest)
    return value.reshape((n, classes) if count == 1 else (n, classes, count))


def class_targets(
    function: str, target: Any, input: jax.Array, ignore_index: int
) -> tuple[jax.Array, jax.Array]:
    """The class of each element, and which count.

    Args:
        function: Who asks.
        target: Shape of ``input`` without its classes.
        input: Shape [classes] or [n, classes, ...].
        ignore_index: The class of elements that do not count.

    Returns:
        Two arrays of shape [n, 1] or [n, 1, rest]: integers, 0 where they do not count; and bool.

    Raises:
        IndexError: A target is out of range, where this process knows it.
        RuntimeError: ``target`` is of another shape, or not of int32, int64 or uint8.
        TypeError: It is not an array.
        ValueError: Its length is not that of ``input``.
    """
    array = arguments.array(function, "target", target)
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
    return jnp.where(counts, array, 0), counts


def _check_shape(function: str, target: tuple[int, ...], input: tuple[int, ...]) -> None:
    wanted = [list(input[:1] + input[2:])] if len(input) > 1 else [[], [1]]
    if list(target) in wanted:
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
        f"{function}(): Expected target size {wanted[0]} for an input of shape {list(input)}, got "
        f"{list(target)}"
    )


def _check_range(function: str, target: Any, classes: int, ignore_index: int) -> None:
    values = arguments.known(target)
    if values is None:
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


@jax.custom_jvp
def pick(values: jax.Array, classes: jax.Array, counts: jax.Array) -> jax.Array:
    """The value of each element's class, or 0 if the element does not count.

    A gradient goes to that class, and is 0 elsewhere: nothing adds up, so it needs no scatter.

    Args:
        values: Shape [n, classes] or [n, classes, rest].
        classes: Shape [n, 1] or [n, 1, rest]. A class out of range reads NaN.
        counts: Whether an element counts, of that shape.

    Returns:
        Shape of ``classes``.
    """
    axes = [array if array.ndim == 3 else array[:, :, None] for array in (values, classes)]
    read = gather(*axes, pullback=Decision()).reshape(classes.shape)
    return jnp.where(counts, read, jnp.zeros_like(read))


@pick.defjvp
def _pick_jvp(primals: Any, tangents: Any) -> Any:
    values, classes, counts = primals
    ours = (jax.lax.broadcasted_iota(classes.dtype, values.shape, 1) == classes) & counts
    dot = jnp.where(ours, tangents[0], jnp.zeros_like(tangents[0])).sum(1, keepdims=True)
    return pick(*primals), dot


def weights_of(weight: jax.Array, classes: jax.Array, *, decision: Decision) -> jax.Array:
    """The weight of each element's class, in the shape of ``classes``."""
    flat = classes.reshape(1, -1, 1)
    return gather(weight[None, :, None], flat, pullback=decision).reshape(classes.shape)


def reduced(
    terms: jax.Array,
    reduction: str,
    amount: jax.Array | None,
    *,
    shape: tuple[int, ...],
    dtype: jax.typing.DTypeLike,
    decision: Decision,
) -> jax.Array:
    """The loss of all elements.

    Args:
        terms: The loss of each, of the accumulator's dtype.
        reduction: How they add up: in panel order, in row-major order of ``terms``.
        amount: What a mean divides by, 0-d; None for another reduction.
        shape: That of the result where nothing adds up.
        dtype: That of the result.
        decision: What each device does.
    """
    if reduction == "none":
        return convert(terms, dtype).reshape(shape)
    sum_ = total(terms, decision=decision)
    return convert(sum_ if amount is None else divide(sum_, amount), dtype)


def total(values: jax.Array, *, decision: Decision) -> jax.Array:
    """The sum of all elements, in panel order with one destination."""
    zero = jnp.zeros((1, 1, 1), values.dtype)
    home = jnp.zeros((1, values.size, 1), jnp.int32)
    # Fenced, or a CPU makes the terms where they are added, one by one.
    updates = fence(values).reshape(1, values.size, 1)
    return scatter_accumulate(zero, home, updates, decision=decision).reshape(())


def count(counts: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """How many elements count, 0-d."""
    return counts.sum(dtype=jnp.result_type(int)).astype(dtype)
