"""impl.nn.functional.embedding."""

from __future__ import annotations

from typing import Any

import jax

from impl._core import arguments, embedding_rows
from impl._core.arguments import Array
from impl._core.numerics import convert
from impl._mode.decide import decide
from impl._primitives.alert import alert

_NAME = "embedding"
_OP = f"nn.functional.{_NAME}"


def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    """Rows of a table.

    Args:
        input: Any shape, int32 or int64, each in [0, rows). Under ``jit`` others read NaN, or
            the fill value of ``jax.numpy.take``, and have no gradient.
        weight: Shape [rows, width], any dtype.
        padding_idx: A row that has no derivative, counted from the end where negative.
        max_norm: Rows whose norm is above this are read scaled to it: multiplied by ``max_norm``
            / (norm + 1e-7). The gradient is that of unscaled rows. PyTorch also writes the
            scaled rows to ``weight``, which here stays as it is.
        norm_type: Which norm: that of the powers ``norm_type`` of a row's elements. They add up
            in panel order.
        scale_grad_by_freq: Whether to divide the derivative of each row by how often ``input``
            names it.
        sparse: Taken for PyTorch's sake; gradients are dense here.

    Returns:
        Shape of ``input`` and [width], dtype of ``weight``. Its gradient adds up all rows read
        from one place, and is then divided. Forward derivatives leave out and divide as gradients
        do, which PyTorch's don't.

    Raises:
        AssertionError: ``padding_idx`` is out of range.
        IndexError: An index is out of range.
        RuntimeError: ``input`` is not of int32 or int64, or ``weight`` not 2-d; ``max_norm`` is
            given for a ``weight`` without fractions; or, when differentiated, the mode was on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.embedding``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    places = arguments.index_array(_NAME, input, "input")
    weight = arguments.array(_NAME, "weight", weight)
    if weight.ndim != 2:
        raise RuntimeError(f"{_NAME}(): 'weight' must be 2-D, but got shape {list(weight.shape)}")
    rows, width = weight.shape
    padding = embedding_rows.padding_row(_NAME, padding_idx, rows, AssertionError, empty=True)
    arguments.flag(_NAME, "scale_grad_by_freq", scale_grad_by_freq)
    arguments.flag(_NAME, "sparse", sparse)
    facts = embedding_rows.facts(_NAME, places, weight, max_norm, norm_type)
    of = f"a weight of {rows} rows"
    arguments.index_range(_NAME, input, rows, None, IndexError, name="input", of=of)
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    flat = places.reshape(-1)
    out = embedding_rows.with_gradient(
        weight,
        embedding_rows.read(alert(weight, decision), flat, max_norm, norm_type, decision=decision),
        flat,
        divisors=embedding_rows.frequencies(flat, rows, decision=pullback)
        if scale_grad_by_freq
        else None,
        padding=padding,
        pullback=pullback,
    )
    return convert(out, weight.dtype).reshape(*places.shape, width)
