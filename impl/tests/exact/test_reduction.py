"""Sums over axes, running sums and products, sums of a few arrays, and complex numbers.

Tests: impl._exact.arithmetic, impl._exact.elementary.complex_numbers, impl._exact.running,
impl._exact.unrounded.states.
"""

import functools
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic, running
from impl._exact.sums import reduction
from impl.tests.exact._sums import (
    DTYPES,
    assert_same,
    hard_matrix,
    rough,
    run,
    with_minus_zeros,
)
from spec import oracles


@pytest.mark.parametrize(
    ("dtype", "count"), [*((dtype, 77) for dtype in DTYPES), ("float32", 8), ("bfloat16", 1024)]
)
def test_the_bits_are_those_of_the_oracle(rng, dtype, count):
    x = hard_matrix(rng, count, dtype)
    add, part = reduction.reduce_sum, min(count, 77)

    def program(x):
        running = reduction.cumsum(x[:part], 0), reduction.cumsum(x[:part], -2, reverse=True)
        narrow = add(x.T, (1,), np.float16), add(x.T, (1,), np.float32)
        return add(x, (0,)), add(x[::-1], (0,)), add(x[:, -5:], (1, 0)), *narrow, *running

    both, backward, some, *narrow, running, reverse = run(program, x)
    want = oracles.nearest(x)
    assert_same(both, want)
    assert_same(backward, want)
    assert_same(some, oracles.nearest(x[:, -5:].reshape(-1)))
    for to, result in zip((np.float16, np.float32), narrow, strict=True):
        assert_same(result, oracles.nearest(x, np.dtype(to)))
    assert_same(running, oracles.nearest_running(x[:part]))
    assert_same(reverse, oracles.nearest_running(x[:part][::-1])[::-1])


def test_float64_of_any_exponent(rng):
    x = rng.standard_normal((40, 8)) * 2.0 ** rng.integers(-1000, 1000, (40, 8))
    x[:20] = -x[20:]
    x[3], x[23] = 2.0**1023, 2.0**-1022
    x[:, :3] = 0
    x[:3, 0] = 1 + 2.0**-52, 2.0**-53, -(2.0**-1022)
    x[:3, 1] = 2.0**1000, -(2.0**946), 2.0**-1022
    x[:5, 2] = 2.0**1000, -(2.0**-1000), 2.0**-1010, 2.0**-1021, -(2.0**1000)
    assert_same(run(lambda x: reduction.reduce_sum(x, (0,)), x), oracles.nearest(x))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_special_value_among_zeros_is_the_sum(dtype, special):
    x = np.zeros((9, 2), DTYPES[dtype])
    x[4, 0] = special
    total, sums = run(lambda x: (reduction.reduce_sum(x, (0,)), reduction.cumsum(x, 0)), x)
    assert_same(total, oracles.nearest(x))
    assert_same(sums, oracles.nearest_running(x))


def test_axes_may_be_in_another_order(rng):
    x = rough(rng, (40, 2, 60))
    want = oracles.nearest(x.transpose(0, 2, 1).reshape(-1, 2))
    assert_same(run(lambda x: reduction.reduce_sum(x, (2, 0)), x), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_have_the_bits_of_the_oracle(rng, dtype):
    x = rough(rng, (7, 9), dtype, 4)
    x[3, 0] = np.nan
    x[3, 1:3] = np.inf
    x[5, 2:4] = 0
    x[5, 3] = -0.0
    x[:, 4] = rough(rng, (7,), dtype, 14 if dtype == "float16" else 120)
    # In float16 the product overflows half-way, and is finite at the end.
    x[:, 5] = [2.0**14] * 3 + [2.0**-14] * 4
    want = oracles.doubling(x)
    forward, backward, last, all_of_them = run(
        lambda x: (
            running.cumprod(x, 0),
            running.cumprod(x[::-1].T, 1, reverse=True),
            running.reduce_prod(x, (0,)),
            running.reduce_prod(x[:, 7:], (0, 1)),
        ),
        x,
    )
    assert_same(forward, want)
    assert_same(backward.T[::-1], want)
    assert_same(last, want[-1])
    assert_same(all_of_them, oracles.doubling(x[:, 7:].reshape(-1))[-1])


def test_a_sum_without_terms_is_zero_and_a_product_one():
    total, product, sums = run(
        lambda x: (
            reduction.reduce_sum(x, (1,)),
            running.reduce_prod(x, (1,)),
            reduction.cumsum(x, 1),
        ),
        np.zeros((3, 0), np.float32),
    )
    assert_same(total, np.zeros(3, np.float32))
    assert_same(product, np.ones(3, np.float32))
    assert sums.shape == (3, 0)


def test_running_log_sums(rng):
    x = rough(rng, (9, 6), spread=3)
    x[:2, 1], x[:, 2], x[5, 3], x[5, 4] = -np.inf, -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        plain = np.logaddexp.accumulate(x.astype(np.float64))

    def program(x):
        backward = running.cumlogsumexp(lax.rev(x, (0,)), 0, reverse=True)
        return running.cumlogsumexp(x, 0), lax.rev(backward, (0,))

    # The error of many roundings in float64 is far below the error of the one to float32.
    want = plain.astype(np.float32)
    for got in run(program, x):
        assert_same(got, want)


def test_running_log_sums_are_not_contracted(rng):
    x = rng.normal(size=(4, 400))

    def at_level(level):
        options = {"xla_backend_optimization_level": level}
        return jax.jit(lambda x: running.cumlogsumexp(x, 0), compiler_options=options)(x)

    # XLA contracts nothing at level 0, and float64 shows a contraction.
    with arithmetic.wide():
        assert_same(at_level(2), at_level(0))


@pytest.mark.parametrize(("function", "lines"), [(lax.cumprod, 900), (lax.cumlogsumexp, 2800)])
def test_a_round_is_not_computed_again_in_the_next_ones(function, lines):
    # With such repetitions, these had 1,863 and 5,567 lines, and grew faster than the length.
    with impl.deterministic(guarantee="portable"):
        compiled = jax.jit(function).lower(jax.ShapeDtypeStruct((512,), "float32")).compile()
    assert len(compiled.as_text().splitlines()) < lines


#: How far the exponents of terms are apart, at most, half of it to each side.
SPREADS = {"float16": (3, 7), "bfloat16": (8, 60), "float32": (12, 60), "float64": (40, 450)}


def hard(rng, count, dtype, spread):
    """Returns terms that cancel, and terms that decide a tie, in any order."""
    rows = rough(rng, (count, 600), dtype, spread).astype(np.float64)
    powers = np.sign(rows) * 2.0 ** np.round(np.log2(np.abs(rows) + 1e-300))
    rows = np.where(rng.random(rows.shape) < 0.4, powers, rows)
    rows[1, ::2] = -rows[0, ::2]
    rows[1, ::4] *= 1 + 2.0 ** -rng.integers(1, 20, rows[1, ::4].shape)
    rows[rng.random(rows.shape) < 0.05] = 0
    return rng.permuted(rows, axis=0).astype(DTYPES[dtype])


@pytest.mark.parametrize("count", [2, 3, 4, 33])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sum_is_the_nearest_float_to_the_sum_of_fractions(rng, dtype, count):
    for spread in SPREADS[dtype]:
        rows = hard(rng, count, dtype, spread)
        got = run(reduction.add, *rows)
        assert np.isfinite(got.astype(np.float64)).all()
        assert_same(got, oracles.nearest(rows), spread)


def few_terms(dtype):
    """Returns sums of four terms: ties, ends of the range, special values and zeros, as columns."""
    info = ml_dtypes.finfo(dtype)
    half, most, least = float(info.eps) / 2, float(info.max), float(info.smallest_normal)
    fourth = half**2 / 2
    columns = [
        *(
            (1, half, 0, -0.0),
            (1, half, least, 0),
            (1, half, -least, 0),
            (1 + 2 * half, half, 0, 0),
        ),
        (1, half, fourth, -fourth * (1 - 8 * half)),
        *((most, most, -most, 0), (most, most, -most, most), (most, most * half, most, -most)),
        *((1.5 * least, -least, least, 0), (1.5 * least, -least, 0, 0), (3 * least, -least, 1, -1)),
        *((np.inf, 1, 2, 0), (np.inf, -np.inf, 2, 0), (np.nan, 1, -np.inf, 0), (-np.inf, 2, 1, 1)),
        *((-0.0, 0.0, -0.0, -0.0), (1, -0.0, -1, -0.0), (-0.0, -0.0, -0.0, -0.0)),
    ]
    if dtype == "float64":
        columns += [(2.0**600, -(2.0**600), 3 * least * 2.0**k, 0) for k in (72, 222)]
    return np.array(columns).T.astype(dtype)


@pytest.mark.parametrize("count", [4, 9, 33])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_few_terms_have_one_result_in_every_order(dtype, count):
    rows = few_terms(dtype)
    want = with_minus_zeros(rows)
    zeros = [np.full_like(rows[0], -0.0)] * (count - 4)
    for order in itertools.permutations(rows):
        assert_same(run(reduction.add, *order, *zeros), want)


def test_constants_change_no_bit():
    x = np.array([1, 2.0**-24, -1.5, -0.0], np.float32)
    numbers = (1, 2.0**-24, -0.0)
    whole = [np.full_like(x, number) for number in numbers]
    want = run(reduction.add, x, *whole)
    got = run(lambda x: reduction.add(x, *map(jnp.asarray, whole)), x)
    assert_same(got, want)


COMPLEX = ["complex64", "complex128"]
#: Functions of JAX or NumPy and two arrays.
OPERATIONS = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": lambda _, a, b: a * b,
    "div": lambda _, a, b: a / b,
    "abs": lambda library, a, _: library.abs(a),
    "exp": lambda library, a, _: library.exp(a),
    "log": lambda library, _, b: library.log(b),
    "power": lambda _, a, __: a**3,
    "of real": lambda _, a, __: a.real * 1j,
    "magnitude": lambda _, a, __: (a * a.conj()).real,
}


@pytest.mark.usefixtures("portable")
@pytest.mark.parametrize("dtype", COMPLEX)
def test_parts_of_complex_numbers_are_rounded_from_more_digits(rng, dtype):
    a, b = ((rng.normal(size=(9, 5)) + 1j * rng.normal(size=(9, 5))).astype(dtype) for _ in "ab")
    with jax.enable_x64(dtype == "complex128"):
        result = jax.jit(lambda a, b: {name: f(jnp, a, b) for name, f in OPERATIONS.items()})(a, b)
    wide = a.astype(np.clongdouble), b.astype(np.clongdouble)
    for name, function in OPERATIONS.items():
        expected = function(np, *wide)
        error = np.abs(np.asarray(result[name]) - expected)
        assert (error <= np.abs(expected) * jnp.finfo(dtype).eps).all(), name
        assert result[name].dtype == expected.astype(result[name].dtype).dtype


@pytest.mark.usefixtures("portable")
@pytest.mark.parametrize("dtype", COMPLEX)
def test_each_part_of_a_sum_is_rounded_once(rng, dtype):
    # Parts of a product that cancel in float64, or to the last bit, and hard terms of a sum.
    terms = hard_matrix(rng, 20, np.zeros(0, dtype).real.dtype.name)
    a = np.empty(terms.shape, dtype)
    a.real, a.imag = terms, terms[::-1]
    finite = a[:, np.isfinite(terms).all(0)]
    finite = np.where(np.abs(finite) < 1e30, finite, finite.dtype.type(3 - 2j))
    b = (rng.normal(size=(20, 4)) + 1j * rng.normal(size=(20, 4))).astype(dtype)
    step = jax.jit(lambda a, f, b: (a.sum(0), f.T @ b, f.T @ b.real, f.T.real @ b, f.T @ f))
    with jax.enable_x64(dtype == "complex128"):
        total, *products = step(a, finite, b)
    for part in (np.real, np.imag):
        assert_same(part(total), part(oracles.nearest(a)))
    real = b.real.astype(dtype), finite.real.astype(dtype)
    factors = [(finite, b), (finite, real[0]), (real[1], b), (finite, finite)]
    for product, (left, right) in zip(products, factors, strict=True):
        want = oracles.nearest_product(left.T, right, dtype)
        for part in (np.real, np.imag):
            assert_same(part(product), part(want))


@pytest.mark.usefixtures("portable")
@pytest.mark.once
def test_derivatives_of_complex_numbers(rng):
    a = (rng.normal(size=7) + 1j * rng.normal(size=7)).astype("complex64")

    def loss(a):
        return jnp.abs(jnp.sum(jnp.exp(a) * a / (1 + a))) + jnp.sum(jnp.abs(a) ** 2)

    step = jax.jit(jax.grad(loss))
    result = step(a)
    with impl.deterministic(False):
        assert np.allclose(result, step(a), rtol=1e-4)


@pytest.mark.usefixtures("portable")
def test_the_gradient_by_a_real_number_is_real(rng):
    # JAX transposes the conversion of a real number to a complex one to a conversion back.
    x = rng.integers(-9, 9, (3, 8)).astype(np.float32)
    gradient = jax.jit(jax.grad(lambda x: (jnp.abs(jnp.fft.fft(x)) ** 2).sum()))(x)
    np.testing.assert_allclose(gradient, 2 * 8 * x, rtol=1e-5, atol=1e-4)
    for dtype in (np.float32, np.int32):
        convert = functools.partial(lax.convert_element_type_p.bind, new_dtype=np.dtype(dtype))
        found = jax.jit(lambda z, to=convert: to(z, weak_type=False, sharding=None))(x + 2j)
        np.testing.assert_array_equal(found, x.astype(dtype))


@pytest.mark.usefixtures("portable")
def test_products_and_quotients_of_complex128_are_rounded_once(rng):
    a, b = (rng.normal(size=(2, 400)) * 2.0 ** rng.integers(-290, 290, (2, 400))).view(complex)
    b[:50] = 1j * a[:50].conj() * (1 + 1e-13 * rng.normal(size=50))  # A part cancels.
    with jax.enable_x64(True):
        results = jax.jit(lambda a, b: (a * b, a / b, abs(a)))(a, b)
    for x, y, *found in zip(a, b, *map(np.asarray, results), strict=True):
        p, q, r, s = map(Fraction, (x.real, x.imag, y.real, y.imag))
        below = r * r + s * s
        assert found[0] == complex(p * r - q * s, p * s + q * r)
        assert found[1] == complex((p * r + q * s) / below, (q * r - p * s) / below)
        middle, half = Fraction(found[2]), Fraction(np.spacing(found[2])) / 2
        assert (middle - half) ** 2 <= p * p + q * q <= (middle + half) ** 2


@pytest.mark.usefixtures("portable")
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_are_divided_by_infinity_and_by_zero(dtype):
    a = np.array([[1 + 0j], [2 - 3j], [-1j], [0]], dtype)
    limits = np.empty(8, dtype)
    limits.real = 0, 0, -0.0, np.inf, -np.inf, 2, -np.inf, 0
    limits.imag = 0, -0.0, 0, 2, -0.0, np.inf, np.inf, -np.inf
    with jax.enable_x64(dtype == "complex128"):
        result = np.asarray(jax.jit(lambda a, b: a / b)(a, limits))
    for part in (np.real, np.imag):  # As in C (annex G).
        with np.errstate(invalid="ignore"):
            by_zero = part(a) * np.copysign(np.float32(np.inf), limits.real)
        np.testing.assert_array_equal(part(result), np.where(limits == 0, by_zero, 0))
