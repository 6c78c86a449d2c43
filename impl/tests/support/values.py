"""Comparison of an op with a reference, over many cases in one compiled program."""

import jax
import jax.numpy as jnp
import numpy as np

from impl.tests.support.refusals import as_tensors


def compute(function, cases, static=()):
    """Calls a function for each case, all in one compiled program.

    Args:
        function: The op.
        cases: For each name the positional arguments and the keywords. Arrays of floats are
            arguments of the program; other arguments are constants, which the op can check.
        static: Positions of arrays of floats that are constants too.

    Returns:
        For each name the result.
    """
    traced = {
        name: {
            position: argument
            for position, argument in enumerate(arguments)
            if isinstance(argument, np.ndarray)
            and jnp.issubdtype(argument.dtype, jnp.inexact)
            and position not in static
        }
        for name, (arguments, _) in cases.items()
    }

    @jax.jit
    def program(arrays):
        return {
            name: function(
                *(arrays[name].get(i, argument) for i, argument in enumerate(arguments)), **options
            )
            for name, (arguments, options) in cases.items()
        }

    return program(traced)


def assert_values(function, reference, cases):
    """Requires the shape, dtype and values of a reference for every case, under ``jit``."""
    for name, got in compute(function, cases).items():
        arguments, options = cases[name]
        want = reference(*arguments, **options)
        assert got.shape == want.shape, name
        assert got.dtype == arguments[0].dtype, name
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)


def assert_reference_is_pytorch(torch, function, reference, cases):
    """Requires that PyTorch has the values of the reference for every case."""
    for name, (arguments, options) in cases.items():
        theirs = function(*(as_tensors(torch, argument) for argument in arguments), **options)
        want = reference(*arguments, **options)
        np.testing.assert_allclose(theirs.numpy(), want, rtol=1e-5, atol=1e-5, err_msg=name)
