"""The forms of the table of operations as calls, and the calls that a test takes."""

import functools
import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance.adapters.base import resolve
from conformance.cases.table import table
from impl.tests.support.programs import equations


class Call:
    """A form of an op as a function of its arrays. Other attributes are the form's."""

    def __init__(self, op, form):
        self.op = op
        self.form = form
        self._leaves, self._tree = jax.tree.flatten((form.arguments, form.options))
        #: The positions of the arrays among the leaves of the arguments.
        self._places = [i for i, leaf in enumerate(self._leaves) if _is_array(leaf)]

    def __getattr__(self, name):
        return getattr(self.form, name)

    @property
    def arrays(self):
        """The arrays of the arguments, in their order."""
        return [self._leaves[place] for place in self._places]

    def with_arrays(self, arrays):
        """Returns the positional arguments and the keywords, with other arrays."""
        leaves = list(self._leaves)
        for place, array in zip(self._places, arrays, strict=True):
            leaves[place] = array
        return jax.tree.unflatten(self._tree, leaves)

    def run(self, namespace, *arrays):
        """Calls the op of a namespace."""
        arguments, options = self.with_arrays(arrays)
        if self.form.call is not None:
            return self.form.call(namespace, *arguments, **options)
        return resolve(namespace, self.op)(*arguments, **options)

    def given(self):
        """Returns the positional arguments and the keywords that the op itself gets."""
        recorded = []
        self.run(_Recorder(recorded), *self.arrays)
        return recorded[0]

    def outputs(self, *arrays):
        """Calls the op of impl and returns all arrays of the result."""
        return jax.tree.leaves(self.run(impl, *arrays))

    @property
    def float_positions(self):
        """The positions of the arrays of floats that a gradient is by."""
        inexact = (i for i, a in enumerate(self.arrays) if jnp.issubdtype(a.dtype, jnp.inexact))
        return list(inexact)[: self.form.traced]

    @property
    def floats(self):
        """The arrays of floats that a gradient is by."""
        return [self.arrays[position] for position in self.float_positions]

    def with_floats(self, floats, arrays=None):
        """Returns the arrays, or other ones, with other floats."""
        replaced = dict(zip(self.float_positions, floats, strict=True))
        arrays = self.arrays if arrays is None else arrays
        return [replaced.get(i, array) for i, array in enumerate(arrays)]


class _Recorder:
    """A namespace of ops that records the arguments of a call instead of running the op."""

    def __init__(self, recorded):
        self._recorded = recorded

    def __getattr__(self, name):
        if name.startswith("sparse_"):
            raise AttributeError(name)  # Its sparse arrays are JAX's.
        if name in ("nn", "functional", "sparse"):
            return self
        return lambda *arguments, **options: self._recorded.append((arguments, options))


def _is_array(value):
    return isinstance(value, np.ndarray | np.generic)


@functools.cache
def calls(op):
    """Returns the forms of an op as calls."""
    return [Call(op, form) for form in table()[op].forms()]


@functools.cache
def named_calls():
    """Returns the calls that are tested under transformations, by op and name.

    The ops of nn, which are made of others, come last.
    """
    return {
        "-".join(filter(None, [op, call.name])): call
        for op in sorted(table(), key=lambda op: (op.count("."), op))
        for call in calls(op)
        if call.name is not None
    }


def first_calls(condition=lambda _: True):
    """Returns arguments of ``parametrize``: one call of each op, named by the op."""
    first = {
        op: next((call for call in calls(op) if call.name is not None), calls(op)[-1])
        for op in table()
    }
    chosen = {op: call for op, call in first.items() if condition(call)}
    return {"argvalues": list(chosen.values()), "ids": list(chosen)}


def parametrize_by_primitives(condition=lambda _: True, *, adding=False):
    """Parametrizes a test by calls; those that add no primitive have the marker ``once``.

    The rules of a primitive may depend on the release of JAX. Ops are made of primitives, so that
    one op for each primitive tries another release.

    Args:
        condition: Whether the test is about a call.
        adding: Whether to leave out calls that add no primitive.
    """
    named = named_calls()
    parameters = [
        pytest.param(named[name], id=name, marks=() if adds else pytest.mark.once)
        for name, adds in _by_primitives(condition)
        if adds or not adding
    ]
    return pytest.mark.parametrize("call", parameters)


def parametrize_pairs(name, values, condition=lambda _: True):
    """Parametrizes a test by calls and an option, which has one of its values, in turn.

    A call that adds no primitive has the marker ``once``.
    """
    named, parameters, others = named_calls(), [], itertools.cycle(values)
    for each, adds in _by_primitives(condition):
        marks, value = () if adds else pytest.mark.once, next(others)
        parameters.append(pytest.param(named[each], value, id=f"{each}-{value}", marks=marks))
    return pytest.mark.parametrize(("call", name), parameters)


def _by_primitives(condition):
    """Yields the name of each call, and whether it has a primitive that none before it has."""
    known = set()
    for name, call in named_calls().items():
        if condition(call):
            primitives = primitives_of(call)
            yield name, bool(primitives - known)
            known |= primitives


@functools.cache
def primitives_of(call, profile="complete", *, differentiated=False):
    """Returns the names of the primitives in a call, and perhaps in its derivatives."""

    def function(*floats):
        return call.outputs(*call.with_floats(floats))

    def derivatives(*floats):
        return jax.linearize(function, *floats)[1](*floats)

    with impl.deterministic(profile=profile, warn_only=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        has_derivatives = differentiated and call.smooth and call.floats
        closed = jax.make_jaxpr(derivatives if has_derivatives else function)(*call.floats)
    return frozenset(equation.primitive.name for equation in equations(closed))
