"""Calls that add to states of sums, and calls that read what made their operands.

A state has the exact sum within its slack, and the levels of the terms add up to it. A call reads
the arrays that transposes and conversions made its operands of.

Tests: impl._jax.repeated, impl._native.operation, impl._native.states.
"""

import functools
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic
from impl._exact.unrounded import states as words
from impl._native import devices, library, products, scatters, states, sums
from impl.tests.exact._sums import rough

pytestmark = pytest.mark.skipif(not library.is_available(), reason="the library was not built")

PLAIN = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
DILATED = ((3, 2), ((4, 1), (2, 5)), (2, 3), (1, 2))


def dot(left, right, numbers, dtypes=("float32", "float32"), spread=8):
    def call(rng):
        operands = [
            jnp.asarray(rough(rng, shape, dtype, spread=spread))
            for shape, dtype in zip((left, right), dtypes, strict=True)
        ]
        return products.product(*operands, dimension_numbers=numbers)

    return call


def convolution(left, right, window, groups=(1, 1)):
    def call(rng):
        strides, padding, of_image, of_kernel = window
        return products.convolution(
            jnp.asarray(rough(rng, left, spread=8)),
            jnp.asarray(rough(rng, right, spread=8)),
            window_strides=strides,
            padding=padding,
            lhs_dilation=of_image,
            rhs_dilation=of_kernel,
            dimension_numbers=lax.conv_dimension_numbers(left, right, ("NCHW", "OIHW", "NCHW")),
            feature_group_count=groups[0],
            batch_group_count=groups[1],
        )

    return call


def reduction(shape, axes, dtype="float32"):
    spread = 4 if dtype == "float16" else 30
    return lambda rng: sums.reduction(jnp.asarray(rough(rng, shape, dtype, spread=spread)), axes)


def scatter(rows, number, width, dtype="float32"):
    def call(rng):
        return scatters.scatter(
            jnp.asarray(rough(rng, (rows, width), dtype)),
            jnp.asarray(rng.integers(-1, rows + 1, (number, 1))),
            jnp.asarray(rough(rng, (number, width), dtype, spread=30)),
            dimension_numbers=lax.ScatterDimensionNumbers((1,), (0,), (0,)),
        )

    return call


BOTH_FIRST = (((0,), (0,)), ((), ()))
BOTH_LAST = (((1,), (1,)), ((), ()))
CALLS = {
    "gradient of a weight": dot((200, 17), (200, 33), BOTH_FIRST),
    "terms are neighbours": dot((9, 300), (20, 300), BOTH_LAST),
    "few rows": dot((3, 1100), (1100, 5), (((1,), (0,)), ((), ()))),
    "many columns": dot((2, 40), (40, 300), (((1,), (0,)), ((), ()))),
    "many rows": dot((530, 30), (30, 3), (((1,), (0,)), ((), ()))),
    "batch": dot((40, 4, 5), (4, 40, 2), (((0,), (1,)), ((1,), (0,)))),
    "two terms": dot((2, 7), (2, 7), (((0, 1), (0, 1)), ((), ()))),
    "bfloat16": dot((150, 6), (150, 7), BOTH_FIRST, ("bfloat16", "bfloat16")),
    "mixed": dot((150, 6), (150, 7), BOTH_FIRST, ("float16", "float32"), 2),
    "wide": dot((150, 6), (150, 7), BOTH_FIRST, spread=60),
    "convolution": convolution((2, 3, 9, 8), (4, 3, 3, 3), PLAIN),
    "dilated": convolution((2, 4, 7, 6), (6, 2, 3, 2), DILATED, (2, 1)),
    "batch groups": convolution((4, 3, 6, 6), (4, 3, 4, 4), PLAIN, (1, 2)),
    "rows": reduction((7, 3000), (1,)),
    "columns": reduction((300, 530), (0,)),
    "all": reduction((40, 5, 6), (0, 1, 2)),
    "float16": reduction((40, 5, 6), (0, 2), "float16"),
    "scatter": scatter(9, 300, 70),
    "sparse scatter": scatter(700, 30, 3),
    "scatter of bfloat16": scatter(9, 300, 1, "bfloat16"),
    "gradient in float64": dot((300, 17), (300, 33), BOTH_FIRST, ("float64", "float64")),
    "a wide one in float64": dot((150, 6), (150, 7), BOTH_FIRST, ("float64", "float64"), 90),
    "columns in float64": reduction((300, 53), (0,), "float64"),
    "scatter in float64": scatter(9, 300, 7, "float64"),
}


def call_of(name, rng):
    with jax.enable_x64("float64" in name):
        return CALLS[name](rng)


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@functools.partial(jax.jit, static_argnums=0)
def add(operation, level, state, *operands):
    """Returns a state to which a call adds, and the three float64 of each sum."""
    state = states.State(operation).nearest(level, state, *operands)
    return state, [each.ravel() for each in words.unpacked(state)]


def state_of(call, level, before=None):
    """Returns the words of a state, as the call adds to it, and the three float64 of each sum."""
    operation, operands = call
    shape = operation.layout(*(each.shape for each in operands))[0]
    before = np.zeros((words.HALVES * words.WORDS, *shape), "u4") if before is None else before
    with arithmetic.wide():
        state, parts = add(operation, np.int32(level), before, *operands)
        return state, [*map(np.asarray, parts)]


def exact(call):
    """Returns the exact sums."""
    operation, operands = call
    size = int(np.prod(operation.layout(*(each.shape for each in operands))[0]))
    with arithmetic.wide():
        digits = np.asarray(jax.jit(operation.digits)(np.arange(size), *operands))
    # The digits have 32 bits each, in units of 2**-352 or 2**-2176.
    unit = 2 ** (2176 if operation.dtype == np.float64 else 352)
    return [Fraction(sum(int(d) << 32 * i for i, d in enumerate(each)), unit) for each in digits]


@pytest.mark.parametrize("name", CALLS)
def test_states_have_sums_within_a_small_slack_and_levels_add_up_to_them(rng, name):
    calls = [call_of(name, rng), call_of(name, rng)]
    want = [exact(call) for call in calls]
    state, (high, low, slack) = state_of(calls[0], -1)
    for parts in (zip(high, low, slack, want[0], strict=True), both(calls[1], state, want)):
        for near, rest, error, total in parts:
            assert abs(Fraction(near) + Fraction(rest) - total) <= Fraction(error)
    assert (slack <= 2.0**-65 * magnitudes(calls[0])).all()
    totals, dtype = [Fraction(0)] * len(want[0]), calls[0][0].dtype
    for level in range(words.levels(dtype)):
        _, (high, low, slack) = state_of(calls[0], level)
        unit = Fraction(2) ** int(words.unit_of(np.int32(level), dtype == np.float64))
        pairs = zip(totals, high, low, strict=True)
        totals = [total + unit * (Fraction(near) + Fraction(rest)) for total, near, rest in pairs]
        pairs = zip(totals, want[0], slack, strict=True)
        assert all(abs(total - whole) <= unit * Fraction(error) for total, whole, error in pairs)
    assert totals == want[0]
    assert not slack.any()


def both(call, state, want):
    """Returns the elements of a state to which a call adds, and the sums of two calls."""
    _, parts = state_of(call, -1, state)
    return zip(*parts, map(sum, zip(*want, strict=True)), strict=True)


def magnitudes(call):
    """Returns a bound of the sums' magnitudes: by the greatest terms."""
    operation, operands = call
    floats = [each for each in operands if jnp.issubdtype(each.dtype, jnp.floating)]
    most = [float(jnp.abs(each.astype(jnp.float32)).max()) for each in floats]
    number = max(each.size for each in floats)
    is_product = isinstance(operation, (products.Product, products.Convolution))
    return number * (most[0] * most[1] if is_product else max(most))


@pytest.mark.parametrize("name", ["bfloat16", "mixed", "rows", "float16", "scatter"])
def test_terms_of_few_bits_leave_no_slack(name):
    call = CALLS[name](np.random.default_rng(4))
    operation, operands = call
    short = [
        jnp.round(each / 2) if jnp.issubdtype(each.dtype, jnp.floating) else each
        for each in (jnp.clip(each, -200, 200) for each in operands)
    ]
    _, (high, low, slack) = state_of((operation, short), -1)
    assert not slack.any()
    want = exact((operation, short))
    assert [Fraction(a) + Fraction(b) for a, b in zip(high, low, strict=True)] == want


@pytest.mark.parametrize("name", ["gradient of a weight", "few rows", "convolution", "rows"])
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_infinities_and_nans_are_sums(rng, name, special):
    operation, (first, *others) = CALLS[name](rng)
    first = first.at[(0,) * first.ndim].set(special)
    plain = np.asarray(operation.nearest(first, *others)).ravel()
    _, (high, low, slack) = state_of((operation, (first, *others)), -1)
    is_sum = np.isfinite(plain)
    np.testing.assert_array_equal(high[~is_sum].astype(np.float32), plain[~is_sum])
    assert not low[~is_sum].any()
    assert not slack[~is_sum].any()
    near, error = high[is_sum].astype(np.float32), np.abs(plain[is_sum]) * 2.0**-23
    assert (np.abs(near - plain[is_sum]) <= error).all()


def test_a_merged_state_is_the_sum_of_all(rng):
    parts = [rough(rng, (1000,), spread=60).astype(np.float64) for _ in range(3)]
    with arithmetic.wide():
        packed = [words.packed([jnp.asarray(x), jnp.zeros(1000), jnp.zeros(1000)]) for x in parts]
        merged = jax.jit(devices.Merging(2).nearest)(packed[0], jnp.stack(packed[1:]))
        high, low, slack = map(np.asarray, words.unpacked(merged))
    for near, rest, error, *terms in zip(high, low, slack, *parts, strict=True):
        total = sum(map(Fraction, terms))
        assert abs(Fraction(near) + Fraction(rest) - total) <= Fraction(error)


#: Dimension numbers of ``lax.dot_general`` for an array of three axes and one of two.
DIMENSIONS = [
    *((((i,), (j,)), ((), ())) for i in range(3) for j in range(2)),
    (((0,), (0,)), ((2,), (1,))),
    (((2, 1), (0, 1)), ((), ())),
    (((), ()), ((1, 0), (0, 1))),
]


def lowered(function, *arrays):
    with impl.deterministic(guarantee="portable"):
        return jax.jit(function).lower(*arrays).compile()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_axes_in_any_order(dtype):
    rng, orders = np.random.default_rng(0), [*itertools.permutations(range(3))]
    whole, other = (jnp.asarray(rng.normal(size=shape), dtype) for shape in ((3, 3, 3), (3, 3)))

    def own(x, y):
        y = lax.transpose(y, (1, 0)).astype(jnp.float32)
        wide = [lax.transpose(x.astype(jnp.float32), axes) for axes in orders]
        return of_values(wide, y)

    def of_values(several, y):
        return [of_value(x, y) for x in several]

    def of_value(x, y):
        products = [lax.dot_general(x, y, numbers) for numbers in DIMENSIONS]
        turned = [lax.dot_general(y, x, ((b, a), (d, c))) for (a, b), (c, d) in DIMENSIONS]
        return products, turned, x.sum(0), x.sum((0, 2)), x.sum(), x.sum(2), y.sum(1)

    wide = np.asarray(whole, np.float32)
    values = [wide.transpose(axes).copy() for axes in orders], np.asarray(other, np.float32).T
    expected = lowered(of_values, *values)(*values)
    got = lowered(own, whole, other)(whole, other)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_is_copied():
    x, y = jnp.ones((3, 4)), jnp.ones((3, 5))
    short = jnp.ones((3, 4), jnp.bfloat16)
    for text in (
        lowered(lambda a, b: a.T @ b, x, y).as_text(),
        lowered(lambda a: a.T.astype(jnp.float32).sum(1), short).as_text(),
    ):
        assert "samebits_" in text
        assert "fusion" not in text


def test_equal_operands_are_not_of_equal_arrays():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), jnp.float32)

    def step(x):
        return x.T @ x, x @ x, x.T @ x.T, x @ x.T

    expected = [a @ b for a, b in [(x.T, x), (x, x), (x.T, x.T), (x, x.T)]]
    for a, b in zip(expected, lowered(step, x)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def known():
    """Returns integers that XLA knows."""
    return jnp.asarray(np.arange(4))


def bits(x):
    return lax.bitcast_convert_type(x, jnp.int32)


@pytest.mark.parametrize(
    "zeros",
    [
        jnp.zeros_like,
        lambda x: jnp.zeros_like(x) * jnp.zeros_like(x),
        lambda x: lax.bitcast_convert_type(0 * bits(x), jnp.float32),
        lambda x: (bits(x) - bits(x)).astype(jnp.float32),
        lambda x: lax.bitcast_convert_type(bits(x) & 0, jnp.float32),
        lambda x: lax.pad(x, jnp.float32(0), [(4, 0, 0)])[:4],
        lambda x: jnp.where(jnp.arange(4) < 4, 0.0, x),
        lambda x: lax.select(lax.eq(lax.bitwise_or(known(), known()), known()), jnp.zeros(4), x),
        lambda x: lax.scan(lambda carry, _: (carry, carry + x), jnp.zeros(4), None, 1)[1][0] * 0,
    ],
)
def test_a_zero_that_xla_knows_is_added(zeros):
    x = jnp.full(4, -0.0)
    adds = lambda x, y: x + y, jax.jit(lambda x, y: y + x), lambda x, y: x - (-y)
    totals = lowered(lambda x: [add(x, zeros(x)) for add in adds], x)(x)
    assert not np.signbit(totals).any()


def test_sums_of_parameters_are_sums_alone():
    def step(x, y):
        z = x @ y
        return (x * y + z) * 0.5 - x / z + jnp.tanh(y), x + 0.0

    with impl.deterministic(guarantee="portable"):
        x = jnp.ones((3, 3))
        text = jax.jit(step).lower(x, x).as_text()
    seals = text.count("stablehlo.replica_id")
    assert seals == 5  # of two products, of a quotient, and two of the sum with the known 0
    assert text.count("stablehlo.subtract") == 1 + seals
