"""impl.scatter_add."""

from __future__ import annotations

import jax

from impl import checks
from impl.checks import Array
from impl.decide import decide
from impl.layout import one_or_more, three_axes
from impl.primitives.alert import alert
from impl.primitives.scatter_accumulate import scatter_accumulate

_NAME = "scatter_add"


def scatter_add(
    input: Array,
    dim: int,
    index: Array,
    src: Array,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Adds each element of ``src`` to ``input`` at the place that ``index`` gives along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] += src[i, j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, of as many dimensions as ``input`` and ``src``, not larger than
            ``src`` anywhere, nor than ``input`` but along ``dim``; or empty. Each value in
            [0, input.shape[dim]). Under ``jit`` others are dropped.
        src: Of the dtype of ``input``; what lies beyond ``index`` is not used.
        unique_indices: Vouches that no element is added to twice, so that there is no order to
            keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.scatter_add``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = checks.array(_NAME, "input", input)
    src = checks.array(_NAME, "src", src)
    dim = checks.dimension(dim, input.ndim, _NAME)
    places = checks.index_array(_NAME, index)
    if input.dtype != src.dtype:
        raise RuntimeError(
            f"{_NAME}(): Expected input.dtype to be equal to src.dtype, but got {input.dtype} and "
            f"{src.dtype}; convert one of them"
        )
    checks.flag(_NAME, "unique_indices", unique_indices)
    decision = decide(_NAME, **checks.facts(input, unique_indices=unique_indices))
    initial = alert(input, decision)
    if places.size == 0:
        return initial
    # PyTorch lets a number stand for an array of one element, and the other way round.
    shape, initial = initial.shape, one_or_more(initial)
    places, src = one_or_more(places), one_or_more(src)
    checks.same_ndim(_NAME, places, input=initial, src=src)
    checks.no_larger(_NAME, places, dim, initial, but_along_dim=True)
    checks.no_larger(_NAME, places, dim, src, but_along_dim=False, name="src")
    checks.index_range(_NAME, index, initial.shape[dim], dim)
    # Only the corner of the input that index spans beside dim can change.
    window = tuple(
        slice(None) if axis == dim else slice(length) for axis, length in enumerate(places.shape)
    )
    used = src[tuple(map(slice, places.shape))]
    corner = initial[window]
    out = scatter_accumulate(
        three_axes(corner, dim), three_axes(places, dim), three_axes(used, dim), decision=decision
    ).reshape(corner.shape)
    if corner.shape != initial.shape:
        out = initial.at[window].set(out)
    return out.reshape(shape)
