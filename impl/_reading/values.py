"""Finds values of a JAX program that are known before it runs: constants, iotas, broadcast scalars.

The audit proves with them that the indices of a scatter differ, or that all of its updates are
equal. This is constant propagation over the equations, computed on demand: a ``Scope`` asks the
equation that made a variable for its operands, evaluates it with NumPy if all of them are known,
and follows inputs of calls, loops and branches to the variables outside. Only arrays of integers
and bools are evaluated, because indices are made of them and NumPy computes them as XLA does.

In the jaxpr of ``x.at[jnp.arange(3) + i0].add(1.0)``::

    { lambda ; x i0. let
        a = iota[dimension=0 shape=(3,)]      # value(a) is [0 1 2]
        b = add a i0                          # value(b) is None, since i0 is an argument
        c = broadcast_in_dim[shape=(3,)] 1.0  # is_constant(c, axes=[0]) is True
        ...

Where an array as a whole is unknown, ``columns`` still finds the known ones among the indices that
``concatenate`` put side by side along the last axis.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._jax import jaxprs
from impl._reading import control_flow
from impl._reading.control_flow import Body

Array: TypeAlias = np.ndarray[Any, Any]
#: The largest number of elements of an array that is computed.
_LARGEST = 2**24
#: The longest chain of equations that is followed, and the deepest nest of jaxprs.
_DEPTH = 200


class Scope:
    """The knowledge of the values in one jaxpr.

    ``known`` has the values of its constants, by their variables. For each input that equals a
    variable outside, ``outside`` has the scope and the variable.
    """

    def __init__(
        self,
        jaxpr: Any,
        known: Mapping[Any, Any] | None = None,
        outside: Mapping[Any, tuple[Scope, Any]] | None = None,
    ) -> None:
        self.jaxpr = jaxpr
        self._known = dict(known or {})
        self._outside: dict[Any, tuple[Scope, Any]] = dict(outside or {})
        self._makers = {
            out: (equation, position)
            for equation in jaxpr.eqns
            for position, out in enumerate(equation.outvars)
        }
        self._values: dict[Any, Array | None] = {}
        self._inner: dict[tuple[int, int], Scope] = {}

    def inner(self, equation: Any, body: Body) -> Scope:
        """Returns the scope of a body of an equation."""
        jaxpr = body.opened
        key = id(equation), id(jaxpr)
        if key not in self._inner:
            outside = {
                jaxpr.invars[position]: (self, equation.invars[operand])
                for position, operand in body.operands.items()
            }
            self._inner[key] = Scope(jaxpr, jaxprs.constants(body.jaxpr), outside)
        return self._inner[key]

    def call(self, equation: Any) -> Scope | None:
        """Returns the scope of the one jaxpr that an equation calls; None if it calls none."""
        body = control_flow.called(equation)
        return None if body is None else self.inner(equation, body)

    def value(self, atom: Any, depth: int = _DEPTH) -> Array | None:
        """Returns the value of a variable or literal of integers or bools; None if unknown."""
        if jaxprs.is_literal(atom):
            return _small(np.asarray(atom.val))
        if atom not in self._values:
            self._values[atom] = self._computed(atom, depth - 1) if depth else None
        return self._values[atom]

    def _computed(self, variable: Any, depth: int) -> Array | None:
        if not _is_countable(variable.aval):
            return None
        if variable in self._known:
            return _small(self._known[variable])
        if variable in self._outside:
            scope, atom = self._outside[variable]
            return scope.value(atom, depth)
        if variable not in self._makers:
            return None
        equation, position = self._makers[variable]
        call = self.call(equation)
        if call is not None:
            return call.value(call.jaxpr.outvars[position], depth)
        rule = _RULES.get(equation.primitive.name)
        if rule is None:
            return None
        operands = [self.value(operand, depth) for operand in equation.invars]
        if any(operand is None for operand in operands):
            return None
        result: Array = np.asarray(rule(*operands, **equation.params))
        return result.astype(variable.aval.dtype)

    def columns(self, atom: Any, depth: int = _DEPTH) -> list[Array | None]:
        """Returns the value of each index along the last axis of an array; None if unknown."""
        length = atom.aval.shape[-1] if atom.aval.shape else 1
        whole = self.value(atom)
        if whole is not None:
            return [whole[..., position] for position in range(length)]
        if jaxprs.is_literal(atom) or not depth:
            return [None] * length
        if atom in self._outside:
            scope, outer = self._outside[atom]
            return scope.columns(outer, depth - 1)
        equation, position = self._makers.get(atom, (None, 0))
        if equation is None:
            return [None] * length
        call = self.call(equation)
        if call is not None:
            return call.columns(call.jaxpr.outvars[position], depth - 1)
        parts = self._columns_of(equation, depth - 1)
        return parts if parts is not None and len(parts) == length else [None] * length

    def _columns_of(self, equation: Any, depth: int) -> list[Array | None] | None:
        """Returns the columns of a result whose columns are columns of its operands."""
        name, out = equation.primitive.name, equation.outvars[0].aval
        if name == "concatenate" and equation.params["dimension"] == out.ndim - 1:
            return [column for part in equation.invars for column in self.columns(part, depth)]
        if name == "stack" and equation.params["axis"] == out.ndim - 1:
            return [self.value(part) for part in equation.invars]
        if name in ("convert_element_type", "copy", "stop_gradient", "optimization_barrier"):
            return self.columns(equation.invars[0], depth)
        if name == "reshape" and out.ndim:
            operand = equation.invars[0].aval
            if operand.ndim and operand.shape[-1] == out.shape[-1]:
                columns = self.columns(equation.invars[0], depth)
                return [c if c is None else c.reshape(out.shape[:-1]) for c in columns]
        return None

    def is_constant(self, atom: Any, axes: Collection[int], depth: int = _DEPTH) -> bool:
        """Returns whether the elements of an array are known to be equal along axes."""
        lengths = [_shape(atom.aval)[axis] for axis in axes]
        if jaxprs.is_literal(atom) or math.prod(lengths) == 1:
            return True
        if not depth:
            return False
        if atom in self._known:
            return _is_constant_array(self._known[atom], axes)
        if atom in self._outside:
            outer, variable = self._outside[atom]
            return outer.is_constant(variable, axes, depth - 1)
        equation, position = self._makers.get(atom, (None, 0))
        if equation is None:
            return False
        call = self.call(equation)
        if call is not None:
            return call.is_constant(call.jaxpr.outvars[position], axes, depth - 1)
        name, operands = equation.primitive.name, equation.invars
        if name == "broadcast_in_dim":
            targets = equation.params["broadcast_dimensions"]
            inner = [axis for axis, target in enumerate(targets) if target in axes]
            return self.is_constant(operands[0], inner, depth - 1)
        if name == "transpose":
            inner = [equation.params["permutation"][axis] for axis in axes]
            return self.is_constant(operands[0], inner, depth - 1)
        if name in _MOVES:
            every = range(len(_shape(operands[0].aval)))
            return self.is_constant(operands[0], every, depth - 1)
        return name in _ELEMENTWISE and all(
            self.is_constant(operand, axes if _shape(operand.aval) else (), depth - 1)
            for operand in operands
        )


class Operands:
    """The knowledge of the values of one equation's operands. Positions count from 0."""

    def __init__(self, scope: Scope, equation: Any) -> None:
        self._scope = scope
        self._operands = equation.invars

    def columns(self, position: int) -> Sequence[Array | None]:
        """Returns each index along the last axis as an array of values; None if unknown."""
        return self._scope.columns(self._operands[position])

    def is_constant(self, position: int, axes: Collection[int]) -> bool:
        """Returns whether the elements are known to be equal along axes."""
        return self._scope.is_constant(self._operands[position], axes)


def _shape(aval: Any) -> tuple[int, ...]:
    shape = getattr(aval, "shape", ())
    return shape if all(isinstance(size, int) for size in shape) else (2,)


def _is_countable(aval: Any) -> bool:
    """Returns whether an array holds integers or bools, and is small enough to compute."""
    dtype = getattr(aval, "dtype", None)
    countable = dtype is not None and (
        jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_)
    )
    shape = getattr(aval, "shape", ())
    return countable and all(isinstance(s, int) for s in shape) and math.prod(shape) <= _LARGEST


def _is_constant_array(value: Any, axes: Collection[int]) -> bool:
    """Returns whether a known array is constant along axes."""
    if not is_concrete(value) or jnp.issubdtype(value.dtype, jax.dtypes.extended):
        return False
    array = np.asarray(value)
    first = array[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(array.ndim))]
    return array.size <= _LARGEST and bool((array == first).all())


def is_concrete(value: Any) -> bool:
    """Returns whether a value is known, and is not traced."""
    return hasattr(value, "dtype") and not isinstance(value, jax.core.Tracer)


def _small(value: Any) -> Array | None:
    """Returns a constant as an array of NumPy; None if it is not one."""
    if not _is_countable(value) or not is_concrete(value):
        return None
    return np.asarray(value)


def _broadcast(
    value: Array, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> Array:
    full = [1] * len(shape)
    for axis, target in enumerate(broadcast_dimensions):
        full[target] = value.shape[axis]
    return np.broadcast_to(value.reshape(full), shape)


def _iota(*, shape: Sequence[int], dimension: int, **params: Any) -> Array:
    along = np.arange(shape[dimension])
    return _broadcast(along, shape=shape, broadcast_dimensions=[dimension], **params)


def _quotient(left: Array, right: Array, **_: Any) -> Array:
    divisor = np.where(right == 0, 1, right)
    return np.asarray((left - np.fmod(left, divisor)) // divisor)


def _slice(value: Array, *, start_indices: Any, limit_indices: Any, strides: Any) -> Array:
    parts = zip(start_indices, limit_indices, strides or [1] * value.ndim, strict=True)
    return value[tuple(slice(*part) for part in parts)]


def _chosen(which: Array, *cases: Array, **_: Any) -> Array:
    return np.choose(np.broadcast_to(which, cases[0].shape).astype(np.int64), cases)


def _two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda left, right, **_: function(left, right)


#: The computation of each primitive that indices are made with. The results wrap as JAX's do.
_RULES: Mapping[str, Callable[..., Any]] = {
    **{name: _two(getattr(operator, name)) for name in ("add", "sub", "mul", "xor")},
    **{name: _two(getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "div": _quotient,
    "rem": _two(lambda left, right: np.fmod(left, np.where(right == 0, 1, right))),
    "max": _two(np.maximum),
    "min": _two(np.minimum),
    "and": _two(operator.and_),
    "or": _two(operator.or_),
    "not": lambda value, **_: np.invert(value),
    "neg": lambda value, **_: np.negative(value),
    "sign": lambda value, **_: np.sign(value),
    "abs": lambda value, **_: np.abs(value),
    "clamp": lambda low, value, high, **_: np.minimum(np.maximum(value, low), high),
    "select_n": _chosen,
    "iota": _iota,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda value, *, new_sizes, **_: value.reshape(new_sizes),
    "squeeze": lambda value, *, dimensions, **_: np.squeeze(value, tuple(dimensions)),
    "expand_dims": lambda value, *, dimensions, **_: np.expand_dims(value, tuple(dimensions)),
    "transpose": lambda value, *, permutation, **_: np.transpose(value, permutation),
    "rev": lambda value, *, dimensions, **_: np.flip(value, tuple(dimensions)),
    "slice": _slice,
    "concatenate": lambda *values, dimension, **_: np.concatenate(values, dimension),
    "stack": lambda *values, axis, **_: np.stack(values, axis),
    "tile": lambda value, *, reps, **_: np.tile(value, reps),
    "convert_element_type": lambda value, *, new_dtype, **_: value.astype(new_dtype),
    "copy": lambda value, **_: value,
    "stop_gradient": lambda value, **_: value,
}

#: Primitives that change the shape; all elements of the result are elements of the operand.
_MOVES = frozenset({"reshape", "squeeze", "expand_dims", "rev", "slice", "tile"})
#: Primitives that compute each element of the result from the operands' elements at its index.
_ELEMENTWISE = frozenset(
    {
        *(
            _RULES.keys()
            - _MOVES
            - {"iota", "concatenate", "stack", "broadcast_in_dim", "transpose"}
        ),
        *("exp", "log", "tanh", "logistic", "integer_pow", "pow", "rsqrt", "sqrt", "square"),
        "reduce_precision",
    }
)
