"""Products, convolutions, attention and recurrent nets of ``impl`` under ``portable``.

The oracle ``nearest`` computes each result and gradient, step by step as the op does: a sum of
products is rounded once, and so is each other operation.
"""

import functools
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax.experimental.sparse import BCOO

import impl
from impl.tests.exact._products import expected_convolution
from impl.tests.support.bits import assert_all_same_bits
from impl.tests.support.numbers import spread, whole
from spec import oracles

F = impl.nn.functional
STRIDE, PADDING, DILATION, GROUPS = (2, 1), (2, 1), (1, 2), 2
#: The factor of the scores of attention, with which no exponential is subnormal.
SCALE = 2.0**-8


def product(a, b, dtype=None):
    return oracles.nearest_product(a, b, dtype or a.dtype)


def of_product(ct, a, b):
    """Returns a product, and the gradients of its factors."""
    return product(a, b), product(ct, b.mT), product(a.mT, ct)


def of_vector(ct, a, b):
    out, of_a, of_b = of_product(ct[:, None], a, b[:, None])
    return out[:, 0], of_a, of_b[:, 0]


#: The rows and columns of the elements of a sparse matrix of [5, 6]; the last one is padding.
POSITIONS = np.concatenate(
    [np.random.default_rng(0).integers(0, (5, 6), (80, 2)), [[5, 6]]], dtype=np.int32
)


def sparse_product(data, dense):
    return impl.sparse.mm(BCOO((data, POSITIONS), shape=(5, 6)), dense)


def of_sparse_product(ct, data, dense):
    """Returns a product and its gradients, whose sums are of float32 and of rounded terms."""
    dtype, narrow = data.dtype, data.dtype.itemsize < 4
    ct, data, dense = (a.astype(np.float32) if narrow else a for a in (ct, data, dense))
    data, (row, column) = data[:-1], POSITIONS[:-1].T

    def added(size, index, a, b):
        total = np.zeros((size, b.shape[1]), b.dtype)
        return oracles.nearest_scatter(total, index, a[:, None] * b)

    out, of_dense = added(5, row, data, dense[column]), added(6, column, data, ct[row])
    terms = ct[row] * dense[column]
    of_data = np.append(oracles.nearest(np.moveaxis(terms, 1, 0)), terms.dtype.type(0))
    return tuple(each.astype(dtype) for each in (out, of_data, of_dense))


#: JAX's convolution with the options of the ops; one of its gradients is the transposed one.
convolve = functools.partial(
    lax.conv_general_dilated,
    window_strides=STRIDE,
    padding=[(each, each) for each in PADDING],
    rhs_dilation=DILATION,
    feature_group_count=GROUPS,
)


def by_oracle(function, *arrays):
    """Returns the results of a function, whose convolutions the oracle computes."""
    with impl.deterministic(False):
        closed = jax.make_jaxpr(function)(*arrays)
        known = dict(zip(closed.jaxpr.invars, arrays, strict=True))
        for equation in closed.jaxpr.eqns:
            operands, given = [known[each] for each in equation.invars], equation.params
            if equation.primitive is lax.conv_general_dilated_p:
                names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
                window = tuple(given[name] for name in names)
                groups = given["feature_group_count"], given["batch_group_count"]
                numbers, (x, w) = given["dimension_numbers"], map(np.asarray, operands)
                result = expected_convolution(x, w, numbers, x.dtype, window, groups)
            else:
                result = equation.primitive.bind(*operands, **given)
            known[equation.outvars[0]] = result
    return [np.asarray(known[each]) for each in closed.jaxpr.outvars]


def gradient_of_image(x, w, ct):
    """Returns the gradient of a convolution by its image, a transposed convolution."""
    return jax.linear_transpose(lambda x: convolve(x, w), x)(ct)


def gradient_of_kernel(x, w, ct):
    return jax.linear_transpose(lambda w: convolve(x, w), w)(ct)


def plus_bias(out, bias):
    """Adds a bias in float32, and rounds."""
    wide = out.dtype if out.dtype.kind == "c" else np.float32
    return (out.astype(wide) + bias.astype(wide)[:, None, None]).astype(out.dtype)


def of_bias(ct):
    """Returns the gradient of a bias; it is added in float32."""
    terms = np.moveaxis(ct, 1, -1).reshape(-1, ct.shape[1])
    wide = terms.dtype if terms.dtype.kind == "c" else np.dtype(np.float32)
    return oracles.nearest(terms, wide).astype(ct.dtype)


def of_conv2d(ct, x, w, b):
    (out,) = by_oracle(lambda x, w: [convolve(x, w)], x, w)
    (image,), (kernel,) = (by_oracle(f, x, w, ct) for f in (gradient_of_image, gradient_of_kernel))
    return plus_bias(out, b), image, kernel, of_bias(ct)


def of_conv_transpose2d(ct, y, w, b):
    (out,) = by_oracle(gradient_of_image, np.zeros_like(ct), w, y)
    (result,) = by_oracle(lambda x, w: [convolve(x, w)], ct, w)
    (kernel,) = by_oracle(gradient_of_kernel, ct, w, y)
    return plus_bias(out, b), result, kernel, of_bias(ct)


def of_attention(ct, q, k, v):
    """Returns the result and the gradients; all steps are in float32."""
    dtype, scale = q.dtype, np.float32(SCALE)
    ct, q, k, v = (a.astype(np.float32) for a in (ct, q, k, v))
    scaled = q * scale
    scores = product(scaled, k.mT)
    shifted = (scores - scores.max(-1, keepdims=True)).astype(np.float64)
    exponentials = np.exp(shifted).astype(np.float32)
    sums = oracles.nearest(np.moveaxis(exponentials, -1, 0))[..., None]
    weights = exponentials / sums
    of_weights = product(ct, v.mT) * weights
    mean = -oracles.nearest(np.moveaxis(of_weights, -1, 0))[..., None]
    of_scores = of_weights + mean * weights
    out = product(weights, v)
    of_q, of_k = product(of_scores, k) * scale, product(of_scores.mT, scaled)
    results = out, of_q, of_k, product(weights.mT, ct)
    return tuple(each.astype(dtype) for each in results)


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


#: For each op: the op, the shapes of its arguments, the reference, the differentiated arguments.
OPTIONS: Any = {"stride": STRIDE, "padding": PADDING, "dilation": DILATION, "groups": GROUPS}
CALLS = {
    "mm": (impl.mm, [(5, 70), (70, 3)], of_product),
    "mv": (impl.mv, [(5, 70), (70,)], of_vector),
    "bmm": (impl.bmm, [(2, 5, 70), (2, 70, 3)], of_product),
    "sparse.mm": (sparse_product, [(81,), (6, 40)], of_sparse_product),
    "conv2d": (
        functools.partial(F.conv2d, **OPTIONS),
        [(2, 4, 5, 6), (6, 2, 2, 3), (6,)],
        of_conv2d,
    ),
    "conv_transpose2d": (
        functools.partial(F.conv_transpose2d, **OPTIONS, output_padding=(1, 0)),
        [(2, 6, 4, 4), (6, 2, 2, 3), (4,)],
        of_conv_transpose2d,
    ),
    "attention": (
        functools.partial(F.scaled_dot_product_attention, scale=SCALE),
        [(2, 3, 4), (2, 40, 4), (2, 40, 5)],
        of_attention,
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_results_and_gradients_are_exact_sums_rounded_once(dtype, rng):
    # Attention refuses complex numbers, and a gradient of a sparse product adds several sums.
    others = {"attention", "sparse.mm"} if dtype == "complex64" else set()
    calls = {name: call for name, call in CALLS.items() if name not in others}
    arrays = {
        name: [numbers(rng, name, shape, dtype) for shape in shapes]
        for name, (_, shapes, _) in calls.items()
    }

    def run(arrays, cotangents):
        results = {}
        for name, (function, *_) in calls.items():
            out, pullback = jax.vjp(function, *arrays[name])
            results[name] = out, *pullback(cotangents[name])
        return results

    shapes = {name: jax.eval_shape(call[0], *arrays[name]).shape for name, call in calls.items()}
    cotangents = {name: numbers(rng, name, shape, dtype) for name, shape in shapes.items()}
    with impl.deterministic(guarantee="portable", profile="complete"):
        results = jax.jit(run)(arrays, cotangents)
    for name, (*_, reference) in calls.items():
        assert_all_same_bits(results[name], reference(cotangents[name], *arrays[name]), name)


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
