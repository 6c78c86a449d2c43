"""Comparison of derivatives with central differences, in forward and in reverse mode."""

import jax
import jax.numpy as jnp
import numpy as np

#: The step of a central difference, in float64.
STEP = 1e-6


def assert_derivatives(function, arrays, *, order=2, rtol=1e-5, atol=1e-5):
    """Checks the derivatives of a function in float64, up to ``order``.

    The first derivatives are a JVP and a VJP. The second derivatives are the JVP and the VJP of
    both. ``jax.test_util.check_grads`` compares the same, but compiles several times as many
    programs.

    Args:
        function: Maps arrays to an array.
        arrays: Its arguments; converted to float64.
        order: 1 or 2.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
    """
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        arrays = tuple(np.asarray(array, np.float64) for array in arrays)
        first_tangents, second_tangents = (
            tuple(rng.standard_normal(array.shape) for array in arrays) for _ in range(2)
        )
        cotangent = rng.standard_normal(jax.eval_shape(function, *arrays).shape)

        def first(*arrays):
            out, tangent = jax.jvp(function, arrays, first_tangents)
            gradients = jax.vjp(function, *arrays)[1](cotangent)
            return out, tangent, gradients

        at = jax.jit(first)
        _, tangent, gradients = at(*arrays)
        (difference,) = _differences(at, arrays, first_tangents, [0])
        close = {"rtol": rtol, "atol": atol}
        np.testing.assert_allclose(tangent, difference, **close)
        np.testing.assert_allclose(
            _inner(gradients, first_tangents), _inner(cotangent, difference), **close
        )
        if order == 1:
            return

        cotangents = jax.tree.map(
            lambda value: rng.standard_normal(value.shape), (tangent, gradients)
        )

        @jax.jit
        def second(*arrays):
            derivatives = lambda *arrays: first(*arrays)[1:]  # noqa: E731
            tangents = jax.jvp(derivatives, arrays, second_tangents)[1]
            pullback = jax.vjp(derivatives, *arrays)[1]
            zeros = jax.tree.map(jnp.zeros_like, cotangents)
            of_tangent = pullback((cotangents[0], zeros[1]))
            of_gradients = pullback((zeros[0], cotangents[1]))
            return tangents, of_tangent, of_gradients

        tangents, *gradients = second(*arrays)
        differences = _differences(at, arrays, second_tangents, [1, 2])
        jax.tree.map(
            lambda value, difference: np.testing.assert_allclose(value, difference, **close),
            tangents,
            tuple(differences),
        )
        for gradient, weights, difference in zip(gradients, cotangents, differences, strict=True):
            np.testing.assert_allclose(
                _inner(gradient, second_tangents), _inner(weights, difference), **close
            )


def _differences(function, arrays, tangents, numbers):
    """Returns the central differences of some results of a function, along tangents."""
    steps = [
        function(*(array + sign * STEP * t for array, t in zip(arrays, tangents, strict=True)))
        for sign in (1, -1)
    ]
    return [
        jax.tree.map(lambda a, b: (a - b) / (2 * STEP), steps[0][number], steps[1][number])
        for number in numbers
    ]


def _inner(first, second):
    """Returns the inner product of two trees of arrays."""
    products = jax.tree.map(np.vdot, first, second)
    return sum(jax.tree.leaves(products))
