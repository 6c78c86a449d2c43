"""The op ``embedding``: rows of a table. ``_embedding_rows`` reads them, and has their gradient."""

from __future__ import annotations

from typing import Any

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import convert
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.nn.functional import _embedding_rows

_NAME = "embedding"
_OP = f"nn.functional.{_NAME}"


@eager.compiled
def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    """Reads rows of a table.

    Args:
        input: Indices of rows, any shape, int32 or int64, each in [0, rows). Under ``jit``, where
            values are unknown, any other index reads NaN, or for other dtypes than floats the fill
            value of ``jax.numpy.take``; it has no gradient.
        weight: The table: shape [rows, width], any dtype.
        padding_idx: A row that has no derivative; negative ones count from the end.
        max_norm: The bound of norms. A row whose norm is greater is multiplied by ``max_norm /
            (norm + 1e-7)`` when it is read. The gradient leaves this factor out.
            ``weight`` stays as it is; PyTorch writes the scaled rows to it.
        norm_type: The order p of the norm: the p-th root of the sum of p-th powers of a row's
            elements, added exactly.
        scale_grad_by_freq: Whether to divide the derivative of each row by the number of times
            that ``input`` names it.
        sparse: Accepted as in PyTorch, without effect: gradients are dense.

    Returns:
        An array of the shape of ``input`` followed by [width], in the dtype of ``weight``. The
        gradient of a row is the sum of all its cotangents, divided afterwards. Forward derivatives
        omit ``padding_idx`` and divide as gradients do; PyTorch's do not.

    Raises:
        AssertionError: ``padding_idx`` is out of range.
        IndexError: An index is out of range.
        RuntimeError: ``input`` is not of int32 or int64, or ``weight`` is not 2-d; ``max_norm`` is
            given and ``weight`` is not of floats or complex numbers; or the call is
            differentiated, the mode was on and the profile has no deterministic implementation for
            the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.embedding``. The spec's rows state what the mode does, and the
    guarantee.
    """
    indices = arguments.index_array(_NAME, input, "input")
    weight = arguments.array(_NAME, "weight", weight)
    if weight.ndim != 2:
        raise RuntimeError(f"{_NAME}(): 'weight' must be 2-D, but got shape {list(weight.shape)}")
    rows, width = weight.shape
    padding = _embedding_rows.padding_row(_NAME, padding_idx, rows, AssertionError, empty=True)
    arguments.flag(_NAME, "scale_grad_by_freq", scale_grad_by_freq)
    arguments.flag(_NAME, "sparse", sparse)
    facts = _embedding_rows.facts(_NAME, indices, weight, max_norm, norm_type)
    of = f"a weight of {rows} rows"
    arguments.index_range(_NAME, input, rows, None, IndexError, name="input", of=of)
    decision, pullback = decide(_OP, **facts), decide(_OP, "backward", **facts)
    flat = indices.reshape(-1)
    read = _embedding_rows.read(alert(weight, decision), flat, max_norm, norm_type)
    out = _embedding_rows.with_gradient(
        weight,
        convert(read, weight.dtype),
        flat,
        divisors=_embedding_rows.frequencies(flat, rows) if scale_grad_by_freq else None,
        padding=padding,
        pullback=pullback,
    )
    return out.reshape(*indices.shape, width)
