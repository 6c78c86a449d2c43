"""The calls of the table of operations that a test takes."""

import functools
import itertools
import warnings

import jax
import pytest

import impl
from conformance.cases._calls import calls, first_call
from conformance.cases.table import table
from impl.tests.support.programs import equations


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
    chosen = {op: call for op in table() if condition(call := first_call(op))}
    return {"argvalues": list(chosen.values()), "ids": list(chosen)}


def parametrize_by_primitives(condition=lambda _: True, *, adding=False):
    """Parametrizes a test by calls; those that add no primitive have the marker ``once``.

    The rules of a primitive may depend on the release of JAX. Ops are made of primitives, so that
    one op for each primitive tries another release. ``adding`` leaves out the calls that add none.
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
