"""The primitive whose equations compute with states of sums (``impl._exact.unrounded``).

An equation of it takes and returns states as uint32, and computes with float64 inside, also in a
program without 64 bits. XLA lowers its own equations natively, in every mode::

    s:u32[6,5,7] = samebits_unrounded[step=added name=dot_general ...] level a b
    t:u32[6,5,7] = samebits_unrounded[step=merged] r s
    w:i32[5,7] = samebits_unrounded[step=rounded dtype=float32] t
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching, mlir, xla

from impl._core.numerics import fence
from impl._core.shard_axes import Devices
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.products import dot_general
from impl._exact.unrounded import operations, states
from impl._jax import Primitive, lowering, shardings
from impl._soft_float64 import engines

#: Options of a step, as pairs, so that an equation with them can be hashed.
Options = tuple[tuple[str, Any], ...]

step_p = Primitive("samebits_unrounded")
step_p.multiple_results = True


def bind(step: str, *operands: Any, **options: Any) -> list[jax.Array]:
    """Returns the results of a step, a key of ``_STEPS``, of arrays and hashable options."""
    bound: list[jax.Array] = step_p.bind(
        *operands, step=step, options=tuple(options.items()), batched=()
    )
    return bound


def of_each(step: str, arrays: Sequence[Any], dtypes: Sequence[str]) -> list[jax.Array]:
    """Returns the one result of a step for each array and its dtype."""
    pairs = zip(arrays, dtypes, strict=True)
    return [bind(step, each, dtype=dtype)[0] for each, dtype in pairs]


def options_of(name: str, params: Mapping[str, Any], shape: Sequence[int]) -> dict[str, Any]:
    """Returns the options of the step ``added`` for an equation."""
    own = {"name": name, "params": tuple(params.items()), "axis_names": ()}
    if name == "samebits_whole":
        own = {key: params[key] for key in own}
    return {**own, "shape": tuple(shape), "is_onto": False}


def equation(like: Any, operands: Sequence[Any], state: Any, options: Mapping[str, Any]) -> Any:
    """Returns the equation of the state of what an operation adds."""
    params = {"step": "added", "options": tuple(options.items()), "batched": ()}
    return like.replace(primitive=step_p, params=params, invars=[*operands], outvars=[state])


def merge(like: Any, operands: Sequence[Any], state: Any) -> Any:
    """Returns the equation that merges two states."""
    return _plain(like, "merged", operands, state)


def _plain(like: Any, step: str, operands: Sequence[Any], out: Any, *options: Any) -> Any:
    """Returns the equation of a step that has no effect, where an equation stands."""
    return like.replace(
        primitive=step_p,
        params={"step": step, "options": options, "batched": ()},
        invars=[*operands],
        outvars=[out],
        effects=frozenset(),
    )


def onto(added: Any, state: Any, out: Any) -> Any:
    """Returns an equation of the step ``added`` that adds to the variable of a state.

    ``out`` is the variable of the result.
    """
    level, *operands = added.invars
    options = {**dict(added.params["options"]), "is_onto": True}
    params = {**added.params, "options": tuple(options.items())}
    return added.replace(params=params, invars=[level, state, *operands], outvars=[out])


def empty(like: Any, state: Any) -> Any:
    """Returns the equation of a state or a factor without terms."""
    kind = ("shape", tuple(state.aval.shape)), ("dtype", str(state.aval.dtype))
    return _plain(like, "zeros", [], state, *kind)


def state_type(result: Any) -> Any:
    """Returns the type of the state of sums of a type."""
    return _words_of(result.shape, states.WORDS)


def type_of_all(state: Any, length: int | None) -> Any:
    """Returns the type of the state of the sums of all iterations; of one if there is no length."""
    if length is None:
        return state
    return jax.core.ShapedArray((state.shape[0], length, *state.shape[1:]), state.dtype)


def words_first(like: Any, stacked: Any, state: Any) -> Any:
    """Returns the equation of the state of all iterations, from stacked states."""
    return _plain(like, "words_first", [stacked], state)


def _added(
    level: jax.Array,
    *operands: jax.Array,
    name: str,
    params: Any,
    axis_names: Any,
    shape: Any,
    is_onto: bool,
) -> list[jax.Array]:
    state, taken = (operands[0], operands[1:]) if is_onto else (states.zeros(shape), operands)
    return [operations.added(name, dict(params), axis_names, level, state, *taken)]


def _exactly(level: jax.Array, state: jax.Array, value: jax.Array) -> list[jax.Array]:
    """Returns the state after values that are one term each."""
    wide = arithmetic.flushed_float64(dot_general.double(value))
    zero, is_plain = lax.full_like(wide, 0), lax.lt(level, np.int32(0))
    terms = states.Elements(1, Devices(()), arithmetic.is_long(value.dtype), lambda x: x)
    slack = lax.select(states.is_small(wide), lax.abs(wide), zero)
    pairs = zip((wide, zero, slack), terms.at(level, wide), strict=True)
    parts = (lax.select(jnp.broadcast_to(is_plain, wide.shape), *pair) for pair in pairs)
    return [states.with_parts(state, *parts)]


def _counted(level: jax.Array, *several: jax.Array, dtype: Any) -> list[jax.Array]:
    """Returns the counts of all sums after one more count, of a level.

    Small arrays are counted together: XLA takes long to compile the equations of one. ``several``
    are counts, then states, of as many arrays of sums.
    """
    number = len(several) // 2
    kinds = [several[:number], several[number:]]
    if number == 1:
        return [states.counted(level, *several, dtype=dtype)]
    shapes = [each.shape[1:] for each in several[:number]]
    flat = [
        lax.concatenate([lax.reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in kind], 1)
        for kind in kinds
    ]
    result = states.counted(level, *flat, dtype=dtype)
    parts = lax.split(result, [*map(math.prod, shapes)], 1)
    return [
        lax.reshape(part, (part.shape[0], *shape))
        for part, shape in zip(parts, shapes, strict=True)
    ]


def _in_doubt(*words: jax.Array, axis_names: Any) -> list[jax.Array]:
    """Returns whether an element is in doubt, on a device along some mesh axes."""
    are = [lax.convert_element_type(states.is_any_in_doubt(each), np.int32) for each in words]
    most = functools.reduce(lax.max, are)
    most = lax.pmax(most, axis_names) if axis_names else most
    return [lax.gt(most, np.int32(0))]


def _one(function: Callable[..., jax.Array]) -> Callable[..., list[jax.Array]]:
    """Returns a step with one result."""
    return lambda *operands, **options: [function(*operands, **options)]


_STEPS: Mapping[str, Callable[..., list[jax.Array]]] = {
    "added": _added,
    "counted": _counted,
    "exactly": _exactly,
    "in_doubt": _in_doubt,
    "merged": _one(states.merged),
    "rounded": _one(states.rounded),
    "values": _one(lambda words, *, dtype: fence(states.values(words, dtype))),
    "words": _one(states.words_of),
    "words_first": _one(lambda stacked: jnp.moveaxis(stacked, 1, 0)),
    "zeros": _one(lambda *, shape, dtype: lax.full(shape, 0, dtype)),
}


def _function(step: str, options: Options, batched: Any) -> Callable[..., Any]:
    function = functools.partial(_STEPS[step], **dict(options))
    for axes in batched:
        function = jax.vmap(function, axes)
    return function


def _types(*avals: Any, step: str, options: Options, batched: Any) -> list[Any]:
    """Returns the types of the results, without a trace of the step where they are plain."""
    known = dict(options)
    if not batched and step == "added":
        return [_words_of(known["shape"], states.WORDS)]
    if not batched and step == "zeros":
        return [jax.core.ShapedArray(known["shape"], jnp.dtype(known["dtype"]))]
    if not batched and step == "merged":
        return [jax.core.ShapedArray(avals[0].shape, avals[0].dtype)]
    if not batched and step == "counted":
        number = (len(avals) - 1) // 2
        return [jax.core.ShapedArray(a.shape, a.dtype) for a in avals[1 : 1 + number]]
    kinds = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    if known.get("axis_names"):  # A sum over devices has the type of the sum of one device.
        options = tuple((k, () if k == "axis_names" else v) for k, v in options)
    with arithmetic.wide(), shardings.no_mesh():
        results = jax.eval_shape(_function(step, options, batched), *kinds)
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in results]


def _words_of(shape: Sequence[int], words: int) -> Any:
    return jax.core.ShapedArray((states.HALVES * words, *shape), np.dtype(np.uint32))


def _lower(context: Any, *operands: Any, step: str, options: Options, batched: Any) -> Any:
    names = dict(options).get("axis_names", ())
    rule = engines.Lowered(context, _function(step, options, batched), multiple_results=True)
    kept = arithmetic.are_kept_on(engines.platforms(context))
    with (
        arithmetic.wide(),
        arithmetic.where_subnormals(are_kept=kept),
        lowering.without_varying_types(lowering.natively(context)) as own,
    ):
        if names:
            return rule(own, *operands)
        with shardings.no_mesh():
            return rule(shardings.without_shardings(own), *operands)


def _batch(values: Any, dims: Any, *, step: str, options: Options, batched: Any) -> Any:
    results = step_p.bind(*values, step=step, options=options, batched=(*batched, tuple(dims)))
    return results, (0,) * len(results)


step_p.def_impl(functools.partial(xla.apply_primitive, step_p))
step_p.def_abstract_eval(_types)
batching.primitive_batchers[step_p] = _batch
mlir.register_lowering(step_p, _lower)

#: The level of a plain state, as an array.
PLAIN = np.int32(states.PLAIN)
#: The words of a dtype that are in doubt.
IN_DOUBT = interval.IN_DOUBT
