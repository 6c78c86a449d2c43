"""Evaluates functions of arrays with float64 in other ways than the device has.

``without_float64`` traces a function, and evaluates its equations in a trace of JAX, where each
float64 is a word. An equation without float64 stays as it is. An operation that moves elements
moves words. Arithmetic calls the functions of this package, and a loop or a condition gets bodies
that are evaluated in the same way. A complex128 is two words. For example, inside the function::

    a:f64[3] = convert_element_type b:f32[3]    a:u64[3], by shifts
    c:f64[3] = mul a a                          c:u64[3], by ``arithmetic.multiply``
    d:f64[3] = select_n e c a                   d:u64[3], by ``select_n``
    f:f32[3] = convert_element_type d           f:f32[3], rounded once

IEEE 754 fixes every bit of these operations, so a device with float64 has the same results. Sums
and products of matrices may be added in any order: whoever adds float64 bounds the error, or has
terms whose sums are exact (``impl._exact.nearest``).

``with_int8_products`` replaces the products of matrices alone, by products of int8.

``OPERATIONS`` has the operations of float64 on words, by the names of JAX's primitives. An
operation takes the values of the operands, the equation, and the parameters of the equation::

    OPERATIONS["mul"](a, b, equation=mul)               the words of a * b
    OPERATIONS["reduce_sum"](a, equation=..., axes=(0,))    the words of the sums
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl import _jax
from impl._exact.products import dot_general
from impl._jax import jaxprs, lowering
from impl._reading import control_flow
from impl._soft_float64 import arithmetic, products, reductions, words

#: A value of an equation: an array, words, or the two words of complex numbers.
Value = Any
#: Takes the values of operands, the equation, and its parameters.
Operation = Callable[..., Any]

_DOUBLE, _COMPLEX, _WORD = np.dtype(np.float64), np.dtype(np.complex128), np.dtype(np.uint64)


class NotSupportedError(NotImplementedError):
    """An equation of float64 has no form in integers."""


def _elementwise(function: Callable[..., Value]) -> Operation:
    """Returns an operation on elements. An operand may be a scalar (a literal of any shape).

    A program has the equations of an operation once for each shape, as a function that it calls.
    """
    called = jax.jit(function)

    def run(*operands: Value, equation: Any, **_: Any) -> Value:
        shape = equation.outvars[0].aval.shape

        def spread(value: jax.Array) -> jax.Array:
            return value if np.shape(value) == shape else jnp.broadcast_to(value, shape)

        return called(*jax.tree.map(spread, operands))

    return run


def _converted(value: Value, *, new_dtype: Any, equation: Any, **_: Any) -> Value:
    old = equation.invars[0].aval.dtype
    if old == new_dtype:  # JAX converts a weak type to a strong one.
        return value
    if _COMPLEX in (old, new_dtype):
        raise NotSupportedError(f"a conversion of {old} to {new_dtype} has no form without float64")
    if new_dtype == _DOUBLE:
        return arithmetic.to_word(value)
    return arithmetic.from_word(value, new_dtype)


def _bits(value: Value, *, new_dtype: Any, **_: Any) -> Value:
    if new_dtype == _DOUBLE:
        new_dtype = _WORD
    return value if value.dtype == new_dtype else lax.bitcast_convert_type(value, new_dtype)


def _round(value: Value, *, rounding_method: Any, **_: Any) -> Value:
    if rounding_method != lax.RoundingMethod.TO_NEAREST_EVEN:
        raise NotSupportedError(f"round by {rounding_method} has no form without float64")
    return arithmetic.round_to_even(value)


def _power(value: Value, *, y: int, **_: Any) -> Value:
    if y != 2:
        raise NotSupportedError(f"integer_pow by {y} has no form without float64")
    return arithmetic.multiply(value, value)


def _complex(function: Callable[[jax.Array, jax.Array], jax.Array]) -> Callable[..., Value]:
    """Returns an operation on words, or on the two words of complex numbers."""

    def run(a: Value, b: Value) -> Value:
        if isinstance(a, tuple):
            return tuple(function(x, y) for x, y in zip(a, b, strict=True))
        return function(a, b)

    return run


def _sorted(
    *operands: Value, equation: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Value]:
    """Returns sorted arrays. Keys of words stand before the words that they order."""
    keys = [
        arithmetic.sortable(value) if atom.aval.dtype == _DOUBLE else value
        for value, atom in zip(operands[:num_keys], equation.invars[:num_keys], strict=True)
    ]
    found = lax.sort(
        [*keys, *operands], dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return list(found[num_keys:])


def _barred(*operands: Value, **_: Any) -> list[Value]:
    """Returns values that pass one barrier."""
    flat, tree = jax.tree.flatten(list(operands))
    barred: list[Value] = jax.tree.unflatten(tree, lax.optimization_barrier(flat))
    return barred


OPERATIONS: Mapping[str, Operation] = {
    "abs": _elementwise(words.magnitude),
    "add": _elementwise(_complex(arithmetic.add)),
    "add_any": _elementwise(_complex(arithmetic.add)),
    "bitcast_convert_type": _bits,
    "ceil": _elementwise(arithmetic.ceil),
    "clamp": _elementwise(arithmetic.clamp),
    "complex": _elementwise(lambda real, imaginary: (real, imaginary)),
    "convert_element_type": _converted,
    "cumsum": reductions.cumsum,
    "div": _elementwise(arithmetic.divide),
    "dot_general": products.dot_general,
    "floor": _elementwise(arithmetic.floor),
    "iota": lambda *, shape, dimension, **_: arithmetic.to_word(
        lax.broadcasted_iota(np.int64, shape, dimension)
    ),
    "imag": _elementwise(lambda value: value[1]),
    "integer_pow": _power,
    "is_finite": _elementwise(words.is_finite),
    "max": _elementwise(arithmetic.maximum),
    "min": _elementwise(arithmetic.minimum),
    "mul": _elementwise(arithmetic.multiply),
    "neg": _elementwise(arithmetic.negative),
    "optimization_barrier": _barred,
    "real": _elementwise(lambda value: value[0]),
    "reduce_scatter": reductions.reduce_scatter,
    "round": _round,
    "scatter-add": reductions.scatter_add,
    "sign": _elementwise(arithmetic.sign),
    "sort": _sorted,
    "sqrt": _elementwise(arithmetic.root),
    "square": _elementwise(lambda value: arithmetic.multiply(value, value)),
    "sub": _elementwise(_complex(arithmetic.subtract)),
    **{
        compare.__name__: _elementwise(arithmetic.compared(compare))
        for compare in (lax.eq, lax.ge, lax.gt, lax.le, lax.lt, lax.ne)
    },
    **dict.fromkeys(("pmax", "reduce_max"), reductions.reduction(arithmetic.maximum, -np.inf)),
    **dict.fromkeys(("pmin", "reduce_min"), reductions.reduction(arithmetic.minimum, np.inf)),
    **dict.fromkeys(
        ("psum", "psum_invariant", "reduce_sum"), reductions.reduction(arithmetic.add, 0.0)
    ),
}

#: Operations that move or choose elements, which move words as they are.
_MOVES = frozenset(
    {
        "all_gather",
        "all_to_all",
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "copy_p",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "pad",
        "ppermute",
        "pvary",
        "reshape",
        "reshard",
        "rev",
        "scatter",
        "samebits_cut_as_the_operands",
        "samebits_kept_whole",
        "sharding_constraint",
        "select_n",
        "slice",
        "split",
        "squeeze",
        "stack",
        "tile",
        "transpose",
        "unstack",
    }
)


@dataclasses.dataclass(frozen=True)
class _Dialect:
    """A way to evaluate equations.

    Attributes:
        operations: The functions of primitives, by name.
        moves: The primitives that move words as they are.
        concerns: Whether an equation, without those inside of it, has another form.
        known: Returns the value of a literal or of a constant.
    """

    operations: Mapping[str, Operation]
    moves: frozenset[str]
    concerns: Callable[[Any], bool]
    known: Callable[[Any], Value]


def without_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of arrays whose equations have no float64.

    Operands and results of float64 are read and written as words by a change of type.
    """

    def changed(value: Any, aval: Any, to: Any) -> Any:
        return lax.bitcast_convert_type(value, to) if aval.dtype == _DOUBLE else value

    def run(closed: Any, arrays: Sequence[jax.Array]) -> list[Any]:
        results = evaluated(closed, [changed(each, each, _WORD) for each in arrays], _WORDS)
        outs = jaxprs.opened(closed).outvars
        return [changed(x, v.aval, _DOUBLE) for x, v in zip(results, outs, strict=True)]

    return _rewritten(function, products.approximate_by_words, run)


def with_int8_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of arrays whose products of matrices of float64 are products of int8."""
    run = functools.partial(evaluated, dialect=_PRODUCTS)
    return _rewritten(function, products.approximate, run)


def _rewritten(
    function: Callable[..., Any], approximate: dot_general.Product, run: Callable[..., list[Any]]
) -> Callable[..., Any]:
    """Returns a function whose equations, with other products, ``run`` evaluates."""

    def rewritten(*arrays: jax.Array) -> Any:
        with dot_general.replaced(approximate):
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arrays)
        return jax.tree.unflatten(jax.tree.structure(shapes), run(closed, arrays))

    return rewritten


def _known(value: Any) -> Value:
    """Returns a literal or a constant."""
    dtype = getattr(value, "dtype", np.asarray(value).dtype)
    if dtype == _DOUBLE:
        return np.asarray(value).view(_WORD)
    if dtype == _COMPLEX:
        whole = np.asarray(value)
        return tuple(np.ascontiguousarray(part).view(_WORD) for part in (whole.real, whole.imag))
    return value


def evaluated(closed: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    """Returns the results of a closed jaxpr, whose equations a dialect evaluates.

    Raises:
        NotSupportedError: An equation of float64 has no form in integers.
    """
    jaxpr = jaxprs.opened(closed)
    environment: dict[Any, Value] = {
        variable: dialect.known(value) for variable, value in jaxprs.constants(closed).items()
    }
    environment |= dict(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Value:
        return dialect.known(atom.val) if jaxprs.is_literal(atom) else environment[atom]

    for equation in jaxpr.eqns:
        results = _results(equation, [read(atom) for atom in equation.invars], dialect)
        environment |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _has_float64(equation: Any) -> bool:
    dtypes = (getattr(a.aval, "dtype", None) for a in (*equation.invars, *equation.outvars))
    return any(dtype in (_DOUBLE, _COMPLEX) for dtype in dtypes)


def _concerns(dialect: _Dialect, equation: Any) -> bool:
    """Returns whether an equation, or one inside of it, has another form."""
    if dialect.concerns(equation):
        return True
    inner = control_flow.every_jaxpr(equation)
    return any(_concerns(dialect, each) for jaxpr in inner for each in jaxprs.opened(jaxpr).eqns)


def _results(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    """Returns the results of an equation."""
    name = str(equation.primitive.name)
    if not _concerns(dialect, equation):
        return _jax.evaluated(equation, operands)
    with equation.ctx.manager:
        if name in dialect.moves:
            return _moved(equation, operands)
        if name in _WITH_BODIES:
            return _WITH_BODIES[name](equation, operands, dialect)
        body = control_flow.called(equation)
        if body is not None:
            return evaluated(body.jaxpr, operands, dialect)
        operation = dialect.operations.get(name)
        if operation is None:
            types = ", ".join(str(each.aval) for each in equation.invars)
            raise NotSupportedError(f"{name} of {types} has no form without float64")
        results = operation(*operands, equation=equation, **equation.params)
    return list(results) if equation.primitive.multiple_results else [results]


def _moved(equation: Any, operands: Sequence[Value]) -> list[Value]:
    """Returns the results of an operation that moves elements, of words."""
    params, primitive = dict(equation.params), equation.primitive
    parts = 2 if any(isinstance(each, tuple) for each in operands) else 1
    found = []
    for part in range(parts):
        own = [each[part] if isinstance(each, tuple) else each for each in operands]
        results = primitive.bind(*own, **params)
        found.append(list(results) if primitive.multiple_results else [results])
    return found[0] if parts == 1 else [*zip(*found, strict=True)]


# Equations with bodies.


def _run_while(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    test, step = control_flow.bodies(equation)

    def holds(carry: list[Value]) -> Any:
        return evaluated(test.jaxpr, test.arguments(operands, carry), dialect)[0]

    def stepped(carry: list[Value]) -> list[Value]:
        return evaluated(step.jaxpr, step.arguments(operands, carry), dialect)

    start = [operands[carry.operand] for carry in step.carries]
    final: list[Value] = lax.while_loop(holds, stepped, start)
    return final


def _run_scan(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    (body,) = control_flow.bodies(equation)
    carried = len(body.carries)

    def stepped(carry: Sequence[Value], slices: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        results = evaluated(body.jaxpr, body.arguments(operands, carry, slices), dialect)
        return results[:carried], results[carried:]

    carry, stacked = lax.scan(
        stepped,
        [operands[each.operand] for each in body.carries],
        [operands[each.operand] for each in body.slices],
        length=body.length,
        reverse=body.reverse,
    )
    return [*carry, *stacked]


def _run_cond(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    branches = [
        functools.partial(lambda closed, *values: evaluated(closed, values, dialect), body.jaxpr)
        for body in control_flow.bodies(equation)
    ]
    return list(lax.switch(operands[0], branches, *operands[1:]))


def _run_natively(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    closed = equation.params["jaxpr"]
    return list(lowering.native(lambda *values: evaluated(closed, values, dialect))(*operands))


def _run_reduce(equation: Any, operands: Sequence[Value], dialect: _Dialect) -> list[Value]:
    count = len(operands) // 2

    def combine(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
        return evaluated(equation.params["jaxpr"], [*first, *second], dialect)

    starts = [jnp.asarray(each) for each in operands[count:]]
    axes = tuple(equation.params["dimensions"])
    return list(lax.reduce(list(operands[:count]), starts, combine, axes))


_WITH_BODIES: Mapping[str, Callable[[Any, Sequence[Value], _Dialect], list[Value]]] = {
    "while": _run_while,
    "scan": _run_scan,
    "cond": _run_cond,
    "reduce": _run_reduce,
    lowering.NATIVE: _run_natively,
}


_WORDS = _Dialect(OPERATIONS, _MOVES, _has_float64, _known)
_PRODUCTS = _Dialect(
    {"dot_general": products.dot_general},
    frozenset(),
    lambda equation: (
        equation.primitive.name == "dot_general"
        and _has_float64(equation)
        and not products.is_exact(equation.params["precision"])
    ),
    lambda value: value,
)
