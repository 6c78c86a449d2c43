"""Convolutions, pools, their inverses, and pad: dtypes, bits, ties, and windows without elements.

Tests: impl.nn.functional._convolution, impl.ops._op, impl.nn.functional._maxima,
impl.nn.functional._max_pools, impl.nn.functional._pools, impl.nn.functional._padding.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal, whole
from impl.tests.support.programs import gpu_program

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


OF_SUMS = ["float32", "float16", "bfloat16", "complex64", "int32", "uint8"]


@pytest.mark.parametrize("op", [F.conv1d, F.conv_transpose1d])
def test_every_dtype_has_the_sums_of_float32(op, rng):
    channels = (4, 3) if op is F.conv1d else (3, 4)
    arrays = whole(rng, (2, 3, 9), 3), whole(rng, (*channels, 2), 3), whole(rng, (4,))
    operands = [[array.astype(dtype) for array in arrays] for dtype in OF_SUMS]
    want, *results = jax.jit(lambda operands: [op(*arrays) for arrays in operands])(operands)
    for dtype, got in zip(OF_SUMS[1:], results, strict=True):
        # JAX converts negative numbers to uint8 by their last bits only from integers.
        source = np.asarray(want).astype(np.int32) if dtype == "uint8" else want
        assert_same_bits(got, jnp.asarray(source).astype(dtype))


def test_the_gradient_of_a_bias_of_bfloat16_is_added_in_float32():
    # 256 plus one for each 32 terms, which a sum kept in bfloat16 would lose.
    cotangent = np.full((1, 1, 1025), 1 / 32, jnp.bfloat16)
    cotangent[0, 0, 0] = 256
    narrow = [np.ones(shape, jnp.bfloat16) for shape in ((1, 1, 1025), (1, 1, 1), 1)]
    gradient = jax.jit(lambda *arrays: jax.vjp(F.conv1d, *arrays)[1](cotangent)[2])
    assert gradient(*narrow)[0] == 288


def test_a_gpu_computes_conv1d_of_integers_by_matrix_products():
    # The library's convolution does not support integers.
    x, w = jnp.ones((1, 2, 9), int), jnp.ones((3, 2, 3), int)
    for on in (True, False):
        text = gpu_program(functools.partial(F.conv1d), x, w, on=on)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.convolution" not in text


IMAGE, WEIGHT = np.ones((2, 4, 8, 8), np.float32), np.ones((6, 4, 3, 3), np.float32)


def test_no_channels_and_no_rows():
    assert F.conv2d(IMAGE[:, :0], WEIGHT[:, :0]).shape == (2, 6, 6, 6)
    assert F.conv2d(IMAGE[:, :, :0], WEIGHT, padding=2).shape == (2, 6, 2, 10)


def test_quotients_of_integers_are_rounded_towards_zero_by_avg_pool1d_and_avg_pool2d():
    x = np.array([[-3, 0, 5, 2, -7, 4]], np.int32)
    assert F.avg_pool1d(x, 2).tolist() == [[-1, 3, -1]]
    assert F.avg_pool1d(x, 2, 2, 1, count_include_pad=False).tolist() == [[-3, 2, -2, 4]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=-2).tolist() == [[[1, -3, 1]]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=2**40).tolist() == [[[0, 0, 0]]]
    with jax.enable_x64(True):
        got = F.avg_pool1d(x.astype(np.int64) * 2**40, 2)
        assert got.dtype == np.int64
        assert got.tolist() == [[-3 * 2**39, 7 * 2**39, -3 * 2**39]]


def test_the_facts_state_one_element_per_channel():
    def facts(op, output_size):
        with impl.testing.questions() as questions:
            jax.eval_shape(lambda x: op(x, output_size), np.ones((3, 6, 5), np.float32))
        (question,) = questions
        assert question.direction == "backward"
        return question.facts["output_size_is_one"]

    assert facts(F.adaptive_avg_pool2d, 1)
    assert not facts(F.adaptive_avg_pool2d, (1, 5))
    assert facts(F.adaptive_avg_pool1d, 1)
    assert not facts(F.adaptive_avg_pool1d, 10)


def test_the_gradient_of_no_elements_is_zero():
    @jax.jit
    @jax.grad
    def gradient(x):
        key = jax.random.key(0)
        results = (
            F.adaptive_avg_pool2d(x, (0, 3)),
            F.adaptive_max_pool2d(x, (3, 0)),
            F.fractional_max_pool2d(x, 2, (3, 0), key=key),
            F.interpolate(x, 0, mode="area"),
            *(F.pad(x, (1, 1, -3, -3), mode) for mode in ("reflect", "replicate", "circular")),
        )
        return sum(result.sum() for result in results)

    x = np.ones((2, 3, 6, 5), np.float32)
    assert_same_bits(gradient(x), np.zeros_like(x))


def test_equal_elements_and_nan():
    nan = np.nan
    x = np.array([[-0.0, 0.0, 0.0, -0.0, 1, nan, nan, 1, -np.inf, -np.inf]], np.float32)
    out, indices = F.max_pool1d(x, 2, return_indices=True)
    assert_same_bits(out, np.array([[-0.0, 0.0, nan, nan, -np.inf]], np.float32))
    assert indices.tolist() == [[0, 2, 5, 6, 8]]
    gradient = jax.jit(jax.grad(lambda x: F.max_pool1d(x, 2).sum()))(x)
    assert gradient.tolist() == [[1, 0, 1, 0, 0, 1, 1, 0, 1, 0]]
    # The first in row-major order is taken, although columns are pooled before rows.
    plane = np.array([[[0, 1, nan], [1, 0, nan], [nan, 1, 0]]], np.float32)
    assert F.max_pool2d(plane, 2, 1, return_indices=True)[1].tolist() == [[[1, 2], [6, 5]]]


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_the_padding_is_no_maximum_of_the_least_values(dtype):
    lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    x = np.full((1, 4, 5), lowest, dtype)
    out, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert_same_bits(out, np.full((1, 2, 3), lowest, dtype))
    assert indices.tolist() == [[[0, 1, 3], [5, 6, 8]]]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_max_pool2d_of_a_window_that_reads_no_element(dtype):
    x = np.ones((1, 2, 3), dtype)
    out, indices = F.max_pool2d(x, 2, (1, 2), 1, (3, 1), return_indices=True)
    lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    assert_same_bits(out, np.full((1, 1, 2), lowest, dtype))
    assert indices.tolist() == [[[-1, -1]]]
    if dtype == np.float32:
        gradient = jax.jit(jax.grad(lambda x: F.max_pool2d(x, 2, (1, 2), 1, (3, 1)).sum()))(x)
        assert_same_bits(gradient, np.zeros_like(x))


def test_fractional_max_pool2d_draws_samples_from_a_key():
    x, key = normal((2, 3, 9, 8)), jax.random.key(7)
    samples = jax.random.uniform(key, (6, 2)).reshape(2, 3, 2)
    given = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, _random_samples=samples))
    drawn = jax.jit(lambda x, key: F.fractional_max_pool2d(x, 3, 4, key=key))
    want = given(x, samples)
    assert_same_bits(drawn(x, key), want)
    assert (drawn(x, jax.random.key(8)) != want).any()
    with pytest.raises(ValueError, match=r"shape \[1, 3, 2\]; got neither"):
        F.fractional_max_pool2d(x[0], 3, 4)


def test_invalid_samples_of_fractional_max_pool2d_read_nothing_outside_the_input(rng):
    x = whole(rng, (2, 1, 9, 8), 3)  # Many elements are equal.
    op = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, None, True, samples))
    for sample in (np.nan, -3.5, 7.0, np.inf, 1e30):
        out, indices = op(x, np.full((2, 1, 2), sample, np.float32))
        indices = np.asarray(indices).reshape(2, -1)
        assert indices.min() >= 0
        assert indices.max() < 72
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), indices, 1), out.reshape(2, -1))


def test_vmap_over_the_samples_of_fractional_max_pool2d_keeps_the_bits():
    x, samples = normal((1, 2, 7, 6)), np.random.default_rng(0).random((3, 1, 2, 2), np.float32)

    def op(samples):
        return F.fractional_max_pool2d(x, 3, (4, 3), _random_samples=samples)

    assert_same_bits(jax.jit(jax.vmap(op))(samples), np.stack(list(map(op, samples))))


def test_the_last_write_stays_and_has_the_gradient():
    x, indices = normal((2, 4)), np.array([[0, 3, 3, 7], [1, 1, 1, 1]])
    out, pullback = jax.vjp(lambda x: F.max_unpool1d(x, indices, 2), x)
    want = np.zeros((2, 8), np.float32)
    want[0, [0, 3, 7]], want[1, 1] = x[0, [0, 2, 3]], x[1, 3]
    assert_same_bits(out, want)
    gradient = pullback(np.full_like(want, 3))[0]
    assert gradient.tolist() == [[3, 0, 3, 3], [0, 0, 0, 3]]


OUT_OF_RANGE = np.array([[[3, -1, 0, 8], [12, 3, 2**31 - 1, -(2**31)]]], np.int32)
X = normal((1, 2, 4))


@pytest.mark.usefixtures("path")
def test_max_unpool1d_drops_writes_out_of_range_under_jit():
    @jax.jit
    def run(x, indices):
        return (
            F.max_unpool1d(x, indices, 2),
            jax.grad(lambda x: (F.max_unpool1d(x, indices, 2) * 3).sum())(x),
        )

    want = np.zeros((1, 2, 8), np.float32)
    want[0, 0, [3, 0]], want[0, 1, 3] = X[0, 0, [0, 2]], X[0, 1, 1]
    out, gradient = run(X, OUT_OF_RANGE)
    assert_same_bits(out, want)
    assert gradient.tolist() == [[[3, 0, 3, 0], [0, 3, 0, 0]]]


def test_the_gradient_of_max_unpool1d_raises_without_its_forward_pass():
    # The compiler removes the forward pass, because the gradient does not need its result.
    gradient = jax.jit(jax.grad(lambda x, i: F.max_unpool1d(x, i, 2).sum()))
    with impl.deterministic(profile="torch-2.12"), pytest.raises(RuntimeError, match="max_unpool"):
        gradient(X, np.zeros(X.shape, np.int32))


def test_a_promise_of_unique_indices_changes_no_result():
    indices = np.arange(8).reshape(X.shape)
    got = F.max_unpool1d(X, indices, 2, unique_indices=True)
    assert_same_bits(got, F.max_unpool1d(X, indices, 2))


@pytest.mark.parametrize(
    ("dtype", "value", "converted"),
    [
        (np.int32, 1.7, 1),
        (np.int8, -128, -128),
        (np.uint8, 255, 255),
        (bool, 2.0, True),
        (np.float16, 1.5, 1.5),
        (jnp.bfloat16, True, 1),
        (np.complex64, np.float32(2), 2),
        (np.int32, jnp.float32(3.7), 3),
        (np.float32, np.array(2), 2),
    ],
)
def test_a_constant_is_converted_to_the_dtype_of_the_input(dtype, value, converted):
    got = F.pad(np.ones(1, dtype), (1, 0), value=value)
    assert got.dtype == dtype
    assert got.tolist() == np.array([converted, 1], dtype).tolist()


def test_a_value_may_be_traced_and_has_no_derivative():
    def call(value):
        return F.pad(jnp.ones(3), (2, 1), value=value)

    assert jax.jit(call)(jnp.float32(4)).tolist() == [4, 4, 1, 1, 1, 4]
    assert jax.vmap(call)(jnp.arange(2.0))[:, 0].tolist() == [0, 1]
    assert jax.grad(lambda value: call(value).sum())(1.0) == 0


#: ``interpolate`` takes the first four.
DTYPES = (
    *("float16", "bfloat16", "float32", "uint8", "int8", "int16", "int32", "uint32", "complex64"),
)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "nearest", "nearest-exact"])
def test_bits_are_copied(mode):
    """The elements are NaNs of all kinds, subnormals and the greatest integers."""

    def copy(x):
        if mode.startswith("nearest"):
            return F.interpolate(x[None], (7, 4), mode=mode)[0]
        return F.pad(x[None], (2, 3, -1, 2), mode)[0]

    patterns = np.random.default_rng(0).integers(0, 256, 2 * 3 * 5 * 8, np.uint8)
    dtypes = map(np.dtype, DTYPES[:4] if mode.startswith("nearest") else DTYPES)
    arrays = [patterns[: 30 * d.itemsize].view(d).reshape(2, 3, 5) for d in dtypes]
    if mode == "circular":
        arrays.append((patterns % 2 == 1)[:30].reshape(2, 3, 5))
    positions = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    program = jax.jit(lambda arrays: [copy(x) for x in arrays])
    *results, copied = program([*arrays, positions])
    for x, out in zip(arrays, results, strict=True):
        want = x.reshape(-1)[np.asarray(copied, int)].view(np.uint8)
        assert_same_bits(np.asarray(out).view(np.uint8), want)
