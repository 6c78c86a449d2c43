"""The op ``index_add``: adds slices to slices of an array, by a scatter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager, number_arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._core.numerics import accumulator, convert, product
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import accumulate

_NAME = "index_add"


@eager.compiled
def index_add(
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    *,
    alpha: Any = 1,
    unique_indices: bool = False,
) -> jax.Array:
    """Adds the slices of ``alpha * source`` to slices of ``input`` along one dimension.

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an update whose
            index is out of range is dropped.
        source: Shape [..., n, ...], of the dtype of ``input``; its other lengths equal
            ``input``'s.
        alpha: A number. Products are rounded to the dtype of ``source`` before they are added.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range, or ``index`` has more than one dimension.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.index_add``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    source = arguments.array(_NAME, "source", source)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    size = input.shape[dim] if input.ndim else 1
    flat = arguments.index_vector(_NAME, index)
    arguments.index_range(_NAME, index, size, dim)
    arguments.source_slices(_NAME, input, dim, flat.shape[0], source)
    if not number_arguments.is_one(number_arguments.number(_NAME, "alpha", alpha)):
        source = _scaled(source, jnp.asarray(alpha))
    arguments.flag(_NAME, "unique_indices", unique_indices)
    decision = decide(_NAME, **arguments.facts(input, unique_indices=unique_indices))
    out = accumulate(
        three_axes(alert(input, decision), dim),
        flat[None, :, None],
        three_axes(source, dim),
        unique=unique_indices,
    )
    return out.reshape(input.shape)


def _scaled(source: jax.Array, alpha: jax.Array) -> jax.Array:
    if jnp.iscomplexobj(alpha) and not jnp.iscomplexobj(source):
        raise RuntimeError(
            f"{_NAME}(): argument 'alpha' got a complex number, which {source.dtype} cannot hold; "
            "pass a real one"
        )
    wide = accumulator(source.dtype)
    return convert(product(convert(source, wide), alpha.astype(wide)), source.dtype)
