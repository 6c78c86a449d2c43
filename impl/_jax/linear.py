"""Linear functions whose transpose is a function of its own, under ``jax.vmap`` too.

JAX would transpose a read by indices to a scatter. Where the indices are constants, reads by the
inverse indices compute the same, without a race. ``jax.custom_derivatives.linear_call`` states such
a transpose. It has no rule for ``jax.vmap``; this module registers one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax._src.core import jaxpr_as_fun
from jax._src.custom_derivatives import linear_call_p
from jax.custom_derivatives import linear_call
from jax.interpreters import batching


def with_transpose(
    function: Callable[[jax.Array], jax.Array],
    transpose: Callable[[jax.Array], jax.Array],
    operand: jax.Array,
) -> jax.Array:
    """Returns ``function(operand)`` of an array of floats, whose derivatives use ``transpose``.

    The function is linear, and closes over constants only.
    """
    out: jax.Array = linear_call(lambda _, x: function(x), lambda _, x: transpose(x), (), operand)
    return out


def _batch(
    args: Any,
    dims: Any,
    *,
    callee: Any,
    transpose_thunk: Callable[[], Any],
    num_callee_consts: int,
    num_res: int,
) -> Any:
    count = num_callee_consts + num_res
    constants, operands, axes = args[:count], tuple(args[count:]), dims[count:]
    if any(dim is not None for dim in dims[:count]) or None in axes:
        raise NotImplementedError("vmap of a linear_call needs all linear operands, and no others")

    def function(_: Any, operands: Any) -> Any:
        run: Any = jaxpr_as_fun(callee)
        each: Any = jax.vmap(lambda *each: run(*constants, *each), axes)
        return tuple(each(*operands))

    def transpose(_: Any, results: Any) -> Any:
        jaxpr, captured = transpose_thunk()
        run: Any = jaxpr_as_fun(jaxpr)
        fixed = (*captured, *constants[num_callee_consts:])
        each: Any = jax.vmap(lambda *each: run(*fixed, *each), out_axes=list(axes))
        return tuple(each(*results))

    outs = linear_call(function, transpose, (), operands)
    return outs, [0] * len(outs)


batching.primitive_batchers[linear_call_p] = _batch
