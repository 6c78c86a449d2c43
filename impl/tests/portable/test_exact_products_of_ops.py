"""Convolutions, attention and recurrent nets of ``impl`` under ``portable``.

The oracle ``nearest`` computes each sum of the program that an op is: a sum of products is rounded
once, and so is each other operation. Of a recurrent net, the gradient of its weights is one sum.
"""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import impl
from impl.tests.exact._products import expected_convolution, expected_dot
from impl.tests.support.bits import assert_all_same_bits
from impl.tests.support.numbers import spread, whole
from impl.tests.support.programs import evaluated
from spec import oracles

F = impl.nn.functional
#: The factor of the scores of attention, with which no exponential is subnormal.
SCALE = 2.0**-8


def product(a, b):
    return oracles.nearest_product(a, b, a.dtype)


def sum_of(x, axes):
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    terms = np.transpose(x, (*axes, *kept)).reshape(-1, *(x.shape[axis] for axis in kept))
    return oracles.nearest(terms)


def convolved(x, w, given):
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    groups = given["feature_group_count"], given["batch_group_count"]
    window = tuple(given[name] for name in names)
    return expected_convolution(x, w, given["dimension_numbers"], x.dtype, window, groups)


#: The values that the oracles and NumPy compute, by the operands and the parameters of an equation.
BY_ORACLE = {
    "conv_general_dilated": convolved,
    "dot_general": lambda a, b, given: expected_dot(a, b, given["dimension_numbers"], a.dtype),
    "reduce_sum": lambda x, given: sum_of(x, given["axes"]),
    "div": lambda a, b, _: a / b,
    "exp": lambda x, _: np.exp(x.astype(np.float64)).astype(x.dtype),
}


def of_equation(equation, *operands):
    """Returns the results of an equation. The oracles compute each sum."""
    name = equation.primitive.name
    if name in BY_ORACLE:
        return [BY_ORACLE[name](*operands, equation.params)]
    with impl.deterministic(False):
        results = equation.primitive.bind(*operands, **equation.params)
    return results if equation.primitive.multiple_results else [results]


def of_rnn_relu(ct, x, h, of_input, of_h):
    """Returns the outputs of a net without biases, and the gradients of its weights."""
    steps, batch, _ = x.shape
    gates = product(x.reshape(steps * batch, -1), of_input.T).reshape(steps, batch, -1)
    states = [h[0]]
    for gate in gates:
        states.append(np.maximum(gate + product(states[-1], of_h.T), np.float32(0)))
    later, slopes = np.zeros_like(h[0]), []
    for step in reversed(range(steps)):
        slope = np.where(states[step + 1] > 0, ct[step] + later, np.float32(0))
        later = product(slope, of_h)
        slopes.insert(0, slope)
    flat = np.concatenate(slopes)
    of_weights = product(flat.T, x.reshape(steps * batch, -1))
    return np.stack(states[1:]), of_weights, product(flat.T, np.concatenate(states[:-1]))


def numbers(rng, name, shape, dtype):
    """Returns numbers whose sums depend on the order, in bfloat16 since great terms cancel."""
    if dtype != "bfloat16" or name == "attention":
        return spread(rng, shape, np.dtype(dtype))
    return (whole(rng, shape, 2) * rng.choice([1, 2**13], shape)).astype(dtype)


#: For each op: the op, and the shapes of its arguments.
OPTIONS: Any = {"stride": (2, 1), "padding": (2, 1), "dilation": (1, 2), "groups": 2}
CALLS: dict[str, Any] = {
    "conv2d": (functools.partial(F.conv2d, **OPTIONS), [(2, 4, 5, 6), (6, 2, 2, 3), (6,)]),
    "conv_transpose2d": (
        functools.partial(F.conv_transpose2d, **OPTIONS, output_padding=(1, 0)),
        [(2, 6, 4, 4), (6, 2, 2, 3), (4,)],
    ),
    "attention": (
        functools.partial(F.scaled_dot_product_attention, scale=SCALE),
        [(2, 3, 4), (2, 40, 4), (2, 40, 5)],
    ),
}


def with_gradient(function, cotangent, *arrays):
    out, pullback = jax.vjp(function, *arrays)
    return out, *pullback(cotangent)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_results_and_gradients_are_exact_sums_rounded_once(dtype, rng):
    # Attention refuses complex numbers.
    others = {"attention"} if dtype == "complex64" else set()
    calls = {name: call for name, call in CALLS.items() if name not in others}
    with impl.deterministic(guarantee="portable", profile="complete"):
        arrays = {}
        for name, (function, shapes) in calls.items():
            own = [numbers(rng, name, shape, dtype) for shape in shapes]
            shape = jax.eval_shape(function, *own).shape
            arrays[name] = numbers(rng, name, shape, dtype), *own

        @jax.jit
        def run(arrays):
            return {name: with_gradient(calls[name][0], *each) for name, each in arrays.items()}

        results = run(arrays)
        for name, (function, _) in calls.items():
            wanted = evaluated(
                functools.partial(with_gradient, function), arrays[name], of_equation
            )
            assert_all_same_bits(results[name], wanted, name)


def test_results_and_gradients_of_rnn_relu_are_exact_sums_rounded_once(rng):
    x, h, of_input, of_h = (spread(rng, s) for s in ((6, 3, 20), (1, 3, 5), (5, 20), (5, 5)))
    of_h = of_h / np.float32(64)
    ct = spread(rng, (6, 3, 5))

    @jax.jit
    def run(x, h, weights, ct):
        def net(weights):
            return impl.nn.rnn_relu(x, h, weights, False, 1, 0.0, False, False, False)[0]

        out, pullback = jax.vjp(net, weights)
        return out, *pullback(ct)[0]

    with impl.deterministic(guarantee="portable", profile="complete"):
        results = run(x, h, [of_input, of_h], ct)
    assert_all_same_bits(results, of_rnn_relu(ct, x, h, of_input, of_h))
