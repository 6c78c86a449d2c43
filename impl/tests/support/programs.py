"""Compiled and lowered programs, and calls from a user's module."""

import re
import types

import jax
import numpy as np

import impl
from impl._jax import jaxprs
from impl._kernels import pallas
from impl._reading.control_flow import every_jaxpr, inlined

_KERNEL = re.compile(r"scatter_(?:add|mul)_(?:atomic|runs)")


def run_together(calls):
    """Runs several calls as one compiled program, which takes less time than a program for each."""
    functions = {name: function for name, (function, *_) in calls.items()}

    @jax.jit
    def program(arguments):
        return {name: function(*arguments[name]) for name, function in functions.items()}

    return program({name: arguments for name, (_, *arguments) in calls.items()})


#: Whether JAX has the backend of kernels.
HAS_KERNELS = pallas.reason_missing() is None


def equations(jaxpr):
    """Yields the equations of a jaxpr, and of all that its equations call."""
    for equation in jaxprs.opened(jaxpr).eqns:
        yield equation
        for inner in every_jaxpr(equation):
            yield from equations(inner)


def evaluated(function, arrays, compute):
    """Returns the results of a function by another evaluator, ``compute``, of its equations."""
    closed = jax.make_jaxpr(function)(*arrays)
    jaxpr = inlined(closed.jaxpr)
    known = dict(zip([*jaxpr.invars, *jaxpr.constvars], [*arrays, *closed.consts], strict=True))

    def value(atom):
        return np.asarray(atom.val if hasattr(atom, "val") else known[atom])

    for equation in jaxpr.eqns:
        results = compute(equation, *map(value, equation.invars))
        known |= dict(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def scatters_floats(text):
    """Returns whether a lowered program scatters floats, of which XLA leaves the order open."""
    # A combine within a scatter returns scalars.
    scatter = r'"stablehlo\.scatter".*?\}\) : \(tensor.*?-> tensor<(?:\d+x)*[a-z]+'
    racing = [s for s in re.findall(scatter, text, re.DOTALL) if "unique_indices = true" not in s]
    return any(re.search(r"(f|bf|complex)$", each) for each in racing)


def kernels(lowered):
    """Returns the names of the kernels of scatters in a lowered program."""
    return set(_KERNEL.findall(lowered.as_text()))


def gpu_program(function, *arrays, on=True):
    """Returns the text of the program for a GPU, with the mode on or off."""
    with impl.deterministic(on, profile="complete"):
        return impl.testing.lower(function, *arrays).as_text()


def user_module(source):
    """Returns a module made from ``source``, which a traceback shows as a user's code.

    Code in ``impl.tests`` would count as impl's own.
    """
    module = types.ModuleType("user_program")
    exec(compile(source, "user_program.py", "exec"), module.__dict__)
    return module
