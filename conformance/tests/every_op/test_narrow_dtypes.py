"""Floats of 16 bits, and the ops that compare elements for dtypes of at most 8 bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance.tests.every_op.calls import named_calls
from conformance.tests.every_op.programs import smooth_outputs
from impl.tests.support.bits import assert_all_same_bits

#: Ops that round more than once: between the layers or the steps of a net, before the sum with a
#: bias, or in a gradient, whose products are divided. A count has its own dtype.
OTHERS = (
    *("bincount", "index_put-masked", "index_reduce-prod", "scatter-multiply", "nn.gru", "nn.lstm"),
    *("scatter_reduce-prod-without-self", "nn.functional.conv2d", "nn.functional.conv_transpose2d"),
    # Its random samples have the dtype of the input.
    "nn.functional.fractional_max_pool2d",
)
#: The calls whose results and gradients equal the ones of float32, rounded once.
CALLS = {
    name: call
    for name, call in named_calls().items()
    if call.floats and call.uses_values and name not in OTHERS
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_bfloat16_is_computed_in_float32_and_rounded_once(call, rng):
    smooth = functools.partial(smooth_outputs, call)

    def results(floats, weights):
        outputs, pullback = jax.vjp(smooth, *floats)
        return [*outputs, *pullback(weights)]

    floats = [array.astype(jnp.bfloat16) for array in call.floats]
    shapes = [out.shape for out in jax.eval_shape(smooth, *floats)]
    narrow = floats, [rng.standard_normal(shape).astype(jnp.bfloat16) for shape in shapes]
    wide = jax.tree.map(lambda array: array.astype(np.float32), narrow)
    got, want = jax.jit(lambda *pairs: [results(*pair) for pair in pairs])(narrow, wide)
    assert_all_same_bits(got, [np.asarray(array).astype(jnp.bfloat16) for array in want])


#: The dtypes, each with its special property.
DTYPES = {
    "float8_e4m3fnuz": "no infinity, and one NaN, with the bits of -0",
    "float8_e8m0fnu": "no sign, no zero and no infinity",
    "float4_e2m1fn": "neither infinity nor NaN, and fewer bits than a byte",
    "int4": "fewer bits than a byte",
}
F = impl.nn.functional


def numbers(dtype):
    """Returns all values of a dtype, some of them several times, in no order: float32 [512]."""
    every = np.arange(512) % 256
    every = every.astype(np.uint8).view(dtype) if "float8" in dtype else every % 14 - 6
    wide = every.astype(np.float32)
    # Subnormals are not part of the guarantee.
    tiny = np.finfo(np.float32).tiny
    wide = np.where((wide != 0) & (np.abs(wide) < tiny), tiny, wide)
    return np.random.default_rng(3).permutation(wide)


@jax.jit
def comparisons(x):
    """Returns the results of the ops that compare elements, by name."""
    index, start = jnp.arange(512) // 3, x[:256]
    results = {
        "sort": impl.sort(x, 0, True),
        "kthvalue": impl.kthvalue(x, 2),
        "cummin": impl.cummin(x, 0),
        "amax": impl.scatter_reduce(start, 0, index, x, "amax", include_self=False),
        "amin": impl.index_reduce(start, 0, index, x, "amin", include_self=False),
    }
    if jnp.issubdtype(x.dtype, jnp.floating):
        bags = functools.partial(F.embedding_bag, offsets=jnp.arange(0, 512, 4), mode="max")
        results["max_pool1d"] = F.max_pool1d(x[None, None], 3, return_indices=True)
        results["embedding_bag"] = bags(jnp.arange(512), x[:, None])
    return results


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_narrow_dtype_compares_as_float32_does(dtype):
    narrow = jnp.asarray(numbers(dtype)).astype(dtype)
    want = comparisons(narrow.astype(jnp.float32))
    for name, got in comparisons(narrow).items():
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want[name]), strict=True):
            np.testing.assert_array_equal(one.astype(other.dtype), other, err_msg=name)
