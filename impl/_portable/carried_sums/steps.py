"""The primitive whose equations compute with states of sums (``impl._exact.unrounded``).

An equation of it takes and returns states as uint32, and computes with float64 inside, also in a
program without 64 bits. XLA lowers its own equations natively, in every mode::

    s:u32[6,5,7] = samebits_unrounded[step=added name=dot_general ...] level a b
    t:u32[6,5,7] = samebits_unrounded[step=merged] r s
    w:i32[5,7] = samebits_unrounded[step=rounded dtype=float32] t
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching, mlir, xla

from impl._core.jax_internals import Primitive, lowering, shardings
from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.unrounded import operations, states, terms

#: Options of a step, as pairs, so that an equation with them can be hashed.
Options = tuple[tuple[str, Any], ...]

step_p = Primitive("samebits_unrounded")
step_p.multiple_results = True


def bind(step: str, *operands: Any, **options: Any) -> list[jax.Array]:
    """Returns the results of a step.

    Args:
        step: Its name, a key of ``_STEPS``.
        *operands: Arrays.
        **options: Hashable options.
    """
    bound: list[jax.Array] = step_p.bind(
        *operands, step=step, options=tuple(options.items()), batched=()
    )
    return bound


def added(
    level: Any, operands: Sequence[Any], name: str, params: Mapping[str, Any]
) -> jax.Array:
    """Returns the state of what an operation adds.

    Args:
        level: ``terms.PLAIN``, or the level to count, int32, shape [].
        operands: Its operands.
        name: The name of its primitive.
        params: Its parameters.
    """
    (state,) = bind("added", level, *operands, **options_of(name, params))
    return state


def options_of(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of the step ``added`` for an equation.

    Args:
        name: The name of the primitive, or of the primitive of a joined sum over devices.
        params: The parameters of the equation.
    """
    if name == "samebits_whole":
        return {key: params[key] for key in ("name", "params", "axis_names")}
    return {"name": name, "params": tuple(params.items()), "axis_names": ()}


def equation(like: Any, operands: Sequence[Any], state: Any, options: Mapping[str, Any]) -> Any:
    """Returns the equation of the state of what an operation adds.

    Args:
        like: The equation of the operation.
        operands: The variable of the level, and the operands.
        state: The variable of the state.
        options: The options of the step.
    """
    params = {"step": "added", "options": tuple(options.items()), "batched": ()}
    return like.replace(primitive=step_p, params=params, invars=[*operands], outvars=[state])


def merge(like: Any, operands: Sequence[Any], state: Any) -> Any:
    """Returns the equation that merges two states."""
    params = {"step": "merged", "options": (), "batched": ()}
    return like.replace(
        primitive=step_p,
        params=params,
        invars=[*operands],
        outvars=[state],
        effects=jax.core.no_effects,
    )


def empty(like: Any, state: Any) -> Any:
    """Returns the equation of a state without terms."""
    options = (("shape", tuple(state.aval.shape[1:])),)
    params = {"step": "zeros", "options": options, "batched": ()}
    return like.replace(
        primitive=step_p, params=params, invars=[], outvars=[state], effects=jax.core.no_effects
    )


def state_type(result: Any) -> Any:
    """Returns the type of the state of sums.

    Args:
        result: The type of the sums.
    """
    shape = (states.HALVES * states.WORDS, *result.shape)
    return jax.core.ShapedArray(shape, np.dtype(np.uint32))


def stacked_type(state: Any, length: int) -> Any:
    """Returns the type of states as a scan stacks them, one for each iteration."""
    return jax.core.ShapedArray((length, *state.shape), state.dtype)


def type_of_all(state: Any, length: int | None) -> Any:
    """Returns the type of the state of the sums of all iterations; of one if there is no length."""
    if length is None:
        return state
    return jax.core.ShapedArray((state.shape[0], length, *state.shape[1:]), state.dtype)


def words_first(like: Any, stacked: Any, state: Any) -> Any:
    """Returns the equation of the state of all iterations, from stacked states."""
    params = {"step": "words_first", "options": (), "batched": ()}
    return like.replace(
        primitive=step_p,
        params=params,
        invars=[stacked],
        outvars=[state],
        effects=jax.core.no_effects,
    )


def levels_of(operands: Sequence[Any], options: Mapping[str, Any]) -> int:
    """Returns the number of levels of an operation.

    Args:
        operands: The types of its operands.
        options: The options of its step.
    """
    names = options["axis_names"]
    return operations.operation(options["name"], operands, dict(options["params"]), names).levels


def _added(
    level: jax.Array, *operands: jax.Array, name: str, params: Any, axis_names: Any
) -> list[jax.Array]:
    found = operations.operation(name, operands, dict(params), axis_names)
    return [operations.added(found, level, *operands)]


def _merged(state: jax.Array, other: jax.Array) -> list[jax.Array]:
    return [states.merged(state, other)]


def _exactly(value: jax.Array) -> list[jax.Array]:
    """Returns the state of sums of one term each."""
    wide = arithmetic.widen(value)
    zero = lax.full_like(wide, 0)
    return [states.of_parts(wide, zero, zero)]


def _level_of(level: jax.Array, value: jax.Array) -> list[jax.Array]:
    """Returns the state of values, all of whose bits are counted at the first level."""
    is_first = lax.le(level, np.int32(0))
    (state,) = _exactly(value)
    chosen = jnp.broadcast_to(is_first, state.shape)
    return [lax.select(chosen, state, lax.full_like(state, 0))]


def _counted(
    level: jax.Array, words: jax.Array, total: jax.Array, state: jax.Array, *, dtype: Any, last: int
) -> list[jax.Array]:
    """Returns the words and the total after a count of one level, or of the plain states."""

    def first() -> tuple[jax.Array, jax.Array]:
        return states.rounded(state, dtype), lax.full_like(total, 0)

    def later() -> tuple[jax.Array, jax.Array]:
        more = states.folded(total, state)
        is_last = jnp.broadcast_to(lax.eq(level, np.int32(last)), words.shape)
        return lax.select(is_last, states.decided(words, more, dtype), words), more

    return [*lax.cond(lax.lt(level, np.int32(0)), first, later)]


def _rounded(state: jax.Array, *, dtype: Any) -> list[jax.Array]:
    return [states.rounded(state, dtype)]


def _values(words: jax.Array, *, dtype: Any) -> list[jax.Array]:
    return [fence(states.values(words, dtype))]


def _in_doubt(*words: jax.Array, axis_names: Any) -> list[jax.Array]:
    """Returns whether an element is in doubt, on a device along some mesh axes."""
    are = [lax.convert_element_type(states.is_any_in_doubt(each), np.int32) for each in words]
    most = functools.reduce(lax.max, are)
    most = lax.pmax(most, axis_names) if axis_names else most
    return [lax.gt(most, np.int32(0))]


def _words_first(stacked: jax.Array) -> list[jax.Array]:
    return [lax.transpose(stacked, (1, 0, *range(2, stacked.ndim)))]


def _zeros(*, shape: Any) -> list[jax.Array]:
    return [states.zeros(shape)]


_STEPS: Mapping[str, Callable[..., list[jax.Array]]] = {
    "added": _added,
    "counted": _counted,
    "exactly": _exactly,
    "in_doubt": _in_doubt,
    "level_of": _level_of,
    "merged": _merged,
    "rounded": _rounded,
    "values": _values,
    "words_first": _words_first,
    "zeros": _zeros,
}


#: The steps that are functions of their own on a CPU, where XLA optimises equal ones once.
_CALLED = frozenset({"added", "counted"})


def _function(step: str, options: Options, batched: Any) -> Callable[..., Any]:
    function = functools.partial(_STEPS[step], **dict(options))
    for axes in batched:
        function = jax.vmap(function, axes)
    return function


def _types(*avals: Any, step: str, options: Options, batched: Any) -> list[Any]:
    names = dict(options).get("axis_names", ())
    kinds = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    if names:  # A sum over devices has the type of the sum of one device.
        options = tuple((k, () if k == "axis_names" else v) for k, v in options)
    with arithmetic.wide(), shardings.no_mesh():
        results = jax.eval_shape(_function(step, options, batched), *kinds)
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in results]


def _lower(context: Any, *operands: Any, step: str, options: Options, batched: Any) -> Any:
    names = dict(options).get("axis_names", ())
    rule = mlir.lower_fun(_function(step, options, batched), multiple_results=True)
    kept = arithmetic.are_kept_on(lowering.platforms(context))
    with (
        arithmetic.wide(),
        arithmetic.where_subnormals(are_kept=kept),
        lowering.without_varying_types(lowering.natively(context)) as own,
    ):
        if names:
            return rule(own, *operands)
        with shardings.no_mesh():
            own = shardings.without_shardings(own)
            if kept or step not in _CALLED:
                return rule(own, *operands)
            return lowering.called(own, f"unrounded_{step}", rule, *operands)


def _batch(values: Any, dims: Any, *, step: str, options: Options, batched: Any) -> Any:
    axes = tuple(None if dim is batching.not_mapped else dim for dim in dims)
    results = step_p.bind(*values, step=step, options=options, batched=(*batched, axes))
    return results, (0,) * len(results)


step_p.def_impl(functools.partial(xla.apply_primitive, step_p))
step_p.def_abstract_eval(_types)
batching.primitive_batchers[step_p] = _batch
mlir.register_lowering(step_p, _lower)

#: The level of a plain state, as an array.
PLAIN = np.int32(terms.PLAIN)
#: The words of a dtype that are in doubt.
IN_DOUBT = interval.IN_DOUBT
