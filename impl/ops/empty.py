"""impl.empty and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.ops._uninitialized import make


def empty(
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """An array that nothing was written to.

    With the mode on and ``utils.deterministic.fill_uninitialized_memory`` set, it holds NaN (with
    an imaginary part of 0), the greatest integer, or True. Otherwise a GPU or a TPU leaves what
    the memory held before, and a CPU zeros, since JAX offers no other array there. Inside ``jit``
    XLA may put anything in the place of what nothing was written to.

    Args:
        *sizes: The shape, as ints or as one tuple or list of them.
        size: The same by name.
        dtype: Any dtype of numbers, or bool. None means JAX's default for floats: float32, or
            float64 where x64 is on.
        **keywords: PyTorch's ``device``, ``layout``, ``memory_format``, ``out``, ``pin_memory``
            and ``requires_grad`` are taken where they are None or False. JAX says elsewhere what
            they would.

    Returns:
        The shape and dtype asked for.

    Raises:
        RuntimeError: A size is negative.
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.empty``. What the mode does, and the guarantee, are in the spec's rows.
    """
    return make("empty", arguments.sizes("empty", sizes, size), dtype, keywords)


def empty_like(
    input: Array, *, dtype: jax.typing.DTypeLike | None = None, **keywords: Any
) -> jax.Array:
    """An array of the shape of another, that nothing was written to.

    What it holds is said at ``empty``.

    Args:
        input: Any shape and dtype.
        dtype: None means that of ``input``.
        **keywords: As for ``empty``.

    Returns:
        The shape of ``input``.

    Raises:
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.empty_like``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = arguments.array("empty_like", "input", input)
    return make("empty_like", input.shape, input.dtype if dtype is None else dtype, keywords)


def new_empty(
    input: Array,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """An array of the dtype of another, that nothing was written to.

    What it holds is said at ``empty``.

    Args:
        input: Any shape and dtype.
        *sizes: The shape, as ints or as one tuple or list of them.
        size: The same by name.
        dtype: None means that of ``input``.
        **keywords: As for ``empty``.

    Returns:
        The shape asked for.

    Raises:
        RuntimeError: A size is negative.
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.Tensor.new_empty``. What the mode does, and the guarantee, are in the spec's
    rows.
    """
    input = arguments.array("new_empty", "input", input)
    shape = arguments.sizes("new_empty", sizes, size)
    return make("new_empty", shape, input.dtype if dtype is None else dtype, keywords)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """An array that nothing was written to, of a shape for which strides are given.

    Arrays of JAX have no strides that a program could see: they are checked, and not kept. Where
    they let elements share memory in PyTorch, each has its own here.

    Args:
        size: The shape, a tuple or list of ints.
        stride: As many ints, none of them negative.
        dtype: As for ``empty``.
        **keywords: As for ``empty``.

    Returns:
        The shape and dtype asked for. What it holds is said at ``empty``.

    Raises:
        RuntimeError: A size or a stride is negative, or there are more of one than of the other.
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.empty_strided``. What the mode does, and the guarantee, are in the spec's rows.
    """
    shape = arguments.sizes("empty_strided", (), size)
    if not isinstance(stride, tuple | list):
        raise TypeError(
            f"empty_strided(): argument 'stride' must be tuple of ints, not {type(stride).__name__}"
        )
    steps = [arguments.integer("empty_strided", f"stride[{i}]", s) for i, s in enumerate(stride)]
    if len(steps) != len(shape):
        raise RuntimeError(
            f"empty_strided(): dimensionality of sizes ({len(shape)}) must match dimensionality "
            f"of strides ({len(steps)})"
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(
            f"empty_strided(): argument 'stride' must not be negative, got {steps} for sizes "
            f"{list(shape)}"
        )
    return make("empty_strided", shape, dtype, keywords)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: jax.typing.DTypeLike | None = None,
    **keywords: Any,
) -> jax.Array:
    """An array that nothing was written to, of a shape for which a layout is given.

    How an array of JAX lies in memory is for XLA to choose: the layout is checked, and not kept.

    Args:
        size: The shape, a tuple or list of ints.
        physical_layout: The dimensions, each once, from the outermost in memory to the innermost.
        dtype: As for ``empty``.
        **keywords: As for ``empty``.

    Returns:
        The shape and dtype asked for. What it holds is said at ``empty``.

    Raises:
        RuntimeError: A size is negative, or ``physical_layout`` does not name each dimension once.
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.empty_permuted``. What the mode does, and the guarantee, are in the spec's
    rows.
    """
    shape = arguments.sizes("empty_permuted", (), size)
    if not isinstance(physical_layout, tuple | list):
        raise TypeError(
            "empty_permuted(): argument 'physical_layout' must be tuple of ints, not "
            f"{type(physical_layout).__name__}"
        )
    if len(physical_layout) != len(shape):
        raise RuntimeError(
            "empty_permuted(): Number of dimensions in size does not match the length of the "
            f"physical_layout; i.e. len(size) = {len(shape)} is not equal to "
            f"len(physical_layout) = {len(physical_layout)}"
        )
    for place, one in enumerate(physical_layout):
        dim = arguments.integer("empty_permuted", f"physical_layout[{place}]", one)
        if not 0 <= dim < len(shape):
            raise RuntimeError(
                f"empty_permuted(): Dimension out of range (expected to be between 0 and "
                f"{len(shape) - 1}, but got {dim} at index {place}); negative ones do not count "
                "from the end here"
            )
        if dim in physical_layout[:place]:
            raise RuntimeError(
                f"empty_permuted(): Duplicate dim not allowed, got {dim} again at index {place}"
            )
    return make("empty_permuted", shape, dtype, keywords)
