"""impl.scatter."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.reductions import ReductionName
from impl._mode.decide import decide
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.scatter_assign import scatter_assign
from impl.ops._index_reduce import refuse_complex_product
from impl.ops._scatter_corner import Combine, scattered

_NAME = "scatter"

_BY: Mapping[str, ReductionName] = MappingProxyType({"add": "add", "multiply": "mul"})


def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes ``src`` to ``input`` at the places that ``index`` gives along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] = src[i, j, k]``.

    Of several elements written to one place one stays, and has the whole gradient of the place;
    the others have none. (In PyTorch each has the whole of it.)

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, of as many dimensions as ``input`` and ``src``, not larger than
            ``src`` anywhere, nor than ``input`` but along ``dim``; or empty. Each value in
            [0, input.shape[dim]). Under ``jit`` others are dropped.
        src: An array of the dtype of ``input``; what lies beyond ``index`` is not used. Or a
            number, which the dtype of ``input`` can hold.
        value: A number in place of ``src``; may also be a 0-d array.
        reduce: None to write; "add" or "multiply" to combine with what is there, which can be
            differentiated (in PyTorch it cannot).
        unique_indices: Vouches that no element is written twice, so that there is no order to
            keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: Complex numbers are to be multiplied.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; ``reduce`` is another
            string; or the mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or not one of ``src`` and ``value`` is given.

    Source: ``torch.scatter``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    if (src is None) == (value is None):
        raise TypeError(
            f"{_NAME}(): expected one of 'src' (an array or a number) and 'value' (a number), but "
            f"got {'neither' if src is None else 'both'}"
        )
    if reduce is not None:
        arguments.choice(_NAME, "reduce", reduce, tuple(_BY))
    if reduce == "multiply":
        refuse_complex_product(_NAME, input.dtype)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    is_array = value is None and not isinstance(src, numbers.Number)
    if is_array:
        source = arguments.array(_NAME, "src", src)
    else:
        name, given = ("src", src) if value is None else ("value", value)
        single = arguments.number_as(_NAME, name, given, input.dtype)
        source = jnp.broadcast_to(single, arguments.index_array(_NAME, index).shape)
    decision = decide(
        _NAME,
        **arguments.facts(
            input, src_is_array=is_array, reduce=reduce or "none", unique_indices=unique_indices
        ),
    )
    combine: Combine
    if reduce is None:
        combine = functools.partial(scatter_assign, decision=decision)
    else:
        combine = functools.partial(scatter_accumulate, decision=decision, by=_BY[reduce])
    return scattered(_NAME, input, dim, index, source, combine=combine, decision=decision)
