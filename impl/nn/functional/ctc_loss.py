"""impl.nn.functional.ctc_loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import within
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl.nn.functional import _ctc, _losses

_NAME = "ctc_loss"
_OP = f"nn.functional.{_NAME}"


def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array | Sequence[int],
    target_lengths: Array | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> jax.Array:
    """The connectionist temporal classification loss.

    Args:
        log_probs: Shape [T, n, classes] or [T, classes], floats: logarithms of probabilities, as
            ``log_softmax`` gives them. T x n x (2 S + 1) numbers are kept, three times for a
            gradient, where S is the length of the longest target or T if that is less.
        targets: Integers, each in [0, classes). Shape [n, S]; or all targets one after another in
            one dimension, for which S is only known where ``target_lengths`` are, and otherwise
            the length of all.
        input_lengths: n integers, or an array of them, each in [0, T].
        target_lengths: n integers, or an array of them. A target that does not fit into its input
            has an infinite loss.
        blank: The class that stands between labels. As in PyTorch a label may be it, and then
            counts as a label.
        reduction: ``"none"``; ``"sum"``; or ``"mean"``, that of the losses divided by the lengths
            of their targets, or by 1 for a target of none.
        zero_infinity: Whether infinite losses, and their gradients, are 0.

    Returns:
        0-d, or for the reduction ``"none"`` of shape [n], or [] for inputs without n; dtype of
        ``log_probs``. float16 and bfloat16 are computed in float32 and rounded once. Its gradient
        is PyTorch's: the exponentials of ``log_probs`` less the probabilities of the classes given
        the target, which is right after ``log_softmax``; and 0 beyond an input's length. Under
        ``jit``, where values are unknown, a length or a label out of range makes the loss NaN.

    Raises:
        IndexError: A label is out of range.
        NotImplementedError: ``log_probs`` is not of floats; or a second derivative is asked for.
        RuntimeError: Shapes, lengths or ``blank`` do not fit; a length is out of range; or, when
            differentiated, the mode was on and the profile has no deterministic implementation
            for the device.
        TypeError: An argument is of the wrong type.
        ValueError: There is no such reduction.

    Source: ``torch.nn.functional.ctc_loss``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    reduction = _losses.reduction_of(_NAME, reduction)
    given = _losses.floats(_NAME, "log_probs", log_probs)
    if given.ndim not in (2, 3) or given.size == 0:
        raise RuntimeError(
            f"{_NAME}(): log_probs tensor must have 2 or 3 dimensions and must not be empty, but "
            f"got shape {list(given.shape)}"
        )
    values = given if given.ndim == 3 else given[:, None]
    times, n, classes = values.shape
    blank = arguments.integer(_NAME, "blank", blank)
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"{_NAME}(): blank must be in label range, 0 to {classes - 1}, but got {blank}"
        )
    arguments.flag(_NAME, "zero_infinity", zero_infinity)
    inputs = _lengths("input_lengths", input_lengths, n, times)
    lengths = _lengths("target_lengths", target_lengths, n, np.iinfo(np.int32).max)
    labels, lengths = _labels(targets, lengths, times=times, n=n, classes=classes)
    pullback = decide(_OP, "backward", **arguments.facts(given, reduction=reduction))
    rules = _ctc.Rules(blank, zero_infinity, pullback)
    wide = convert(values, accumulator(given.dtype))
    loss = _ctc.losses(wide, labels, jnp.asarray(inputs), jnp.asarray(lengths), rules)
    if reduction == "mean":
        loss = (loss / jnp.maximum(lengths, 1).astype(loss.dtype)).mean()
    elif reduction == "sum":
        loss = loss.sum()
    elif given.ndim == 2:
        loss = loss.reshape(())
    return convert(loss, given.dtype)


def _lengths(name: str, value: Any, n: int, most: int) -> jax.Array | np.ndarray[Any, Any]:
    """Lengths as int32, -1 where they are out of range; of NumPy if this process knows them."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        each = [arguments.integer(_NAME, f"{name}[{i}]", one) for i, one in enumerate(value)]
        value = np.array(each, np.int64)
    array = arguments.array(_NAME, name, value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuntimeError(f"{_NAME}(): {name} must be integral, but got {array.dtype}")
    if array.size != n:
        raise RuntimeError(
            f"{_NAME}(): {name} must be of size batch_size, {n}, but got {array.size}"
        )
    known = arguments.known(value)
    if known is not None:
        known = known.reshape(n)
        wrong = (known < 0) | (known > most)
        if np.any(wrong):
            place = int(np.argmax(wrong))
            rule = f"at most {most}" if known[place] >= 0 else "at least 0"
            raise RuntimeError(
                f"{_NAME}(): Expected {name} to have value {rule}, but got value {known[place]} "
                f"at position {place}"
            )
        return known.astype(np.int32)
    wide = array.reshape(n).astype(jnp.promote_types(array.dtype, jnp.int32))
    return jnp.where((wide >= 0) & (wide <= most), wide.astype(jnp.int32), -1)


def _labels(
    targets: Any, lengths: jax.Array | np.ndarray[Any, Any], *, times: int, n: int, classes: int
) -> tuple[jax.Array, jax.Array | np.ndarray[Any, Any]]:
    """Labels of shape [n, S], and lengths, -1 where they are found to be out of range."""
    array = arguments.array(_NAME, "targets", targets)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuntimeError(f"{_NAME}(): targets must be integral, but got {array.dtype}")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[0] != n):
        raise RuntimeError(
            f"{_NAME}(): Expected targets of shape [{n}, S], or one after another in 1 dimension, "
            f"but got shape {list(array.shape)}"
        )
    if isinstance(lengths, np.ndarray):
        _check_fit(array.shape, lengths)
        _check_labels(targets, lengths, classes)
    inside = within(array.astype(jnp.promote_types(array.dtype, jnp.int32)), classes)
    if array.ndim == 2:
        fits = (lengths >= 0) & (lengths <= array.shape[1])
        return inside[:, :times], jnp.where(fits, lengths, -1)
    # Where lengths are unknown a target may be as long as all.
    longest = array.shape[0]
    if isinstance(lengths, np.ndarray):
        longest = int(lengths.max(initial=0))
    if array.size == 0:  # which jnp.take does not read from
        return jnp.zeros((n, 0), jnp.int32), jnp.where(lengths > 0, -1, lengths)
    ends = jnp.cumsum(jnp.maximum(lengths, 0), dtype=jnp.int32)
    starts = ends - jnp.maximum(lengths, 0)
    places = starts[:, None] + jnp.arange(min(longest, times), dtype=jnp.int32)
    read = jnp.take(inside, places, mode="fill", fill_value=classes)
    return read, jnp.where(ends <= array.shape[0], lengths, -1)


def _check_fit(shape: tuple[int, ...], lengths: np.ndarray[Any, Any]) -> None:
    """Refuses lengths that are not those of targets of this shape."""
    total, longest = int(lengths.sum(dtype=np.int64)), int(lengths.max(initial=0))
    if len(shape) == 1 and total != shape[0]:
        raise RuntimeError(
            f"{_NAME}(): Expected targets to have size {total}, the sum of target_lengths, at "
            f"dimension 0, but got size {shape[0]}"
        )
    if len(shape) == 2 and longest > shape[1]:
        raise RuntimeError(
            f"{_NAME}(): Expected targets to have size at least {longest}, the greatest of "
            f"target_lengths, at dimension 1, but got size {shape[1]}"
        )


def _check_labels(targets: Any, lengths: np.ndarray[Any, Any], classes: int) -> None:
    """Refuses labels out of range, where this process knows them."""
    values = arguments.known(targets)
    if values is None:
        return
    wrong = (values < 0) | (values >= classes)
    if values.ndim == 2:
        wrong &= np.arange(values.shape[1]) < lengths[:, None]
    if np.any(wrong):
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise IndexError(
            f"{_NAME}(): Target {values[position]} is out of bounds, at position {list(position)} "
            f"of argument 'targets'; allowed are 0 to {classes - 1}"
        )
