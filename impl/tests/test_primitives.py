"""The core primitives by themselves: exact arithmetic, extremes, writers, and their derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl._core import numerics
from impl._mode.decide import Action, Decision
from impl._mode.emulation import current
from impl._primitives.arithmetic import divide, multiply
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.scatter_assign import scatter_assign
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits

NAN, INF = np.float32(np.nan), np.float32(np.inf)


def decision(path="ordered"):
    return Decision(elsewhere=Action(path=path), emulation=current())


def lanes(*values):
    return np.array(values, np.float32)[None, :, None]


# Division and multiplication.


def normal_floats(rng, count, dtype):
    """Any sign, exponent and significand, but nothing subnormal."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    values = rng.integers(0, np.iinfo(word).max, count, word, endpoint=True).view(dtype)
    return values[~(np.abs(values) < np.finfo(dtype).tiny)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_a_quotient_is_rounded_as_ieee_754_has_it(dtype):
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        a = normal_floats(rng, 300_000, dtype)
        b = rng.permutation(a)
        counts = rng.integers(1, 1000, a.size)
        near = (rng.integers(0, 4, a.size) - 2) * np.finfo(dtype).eps + 1
        quotient = jax.jit(numerics.quotient)
        pairs = ((a, b), (a, counts), (b, near), (near, counts))
        for numerator, divisor in (tuple(v.astype(dtype) for v in pair) for pair in pairs):
            with np.errstate(all="ignore"):
                wanted = numerator / divisor
            kept = ~((np.abs(wanted) < 2 * np.finfo(dtype).tiny) & (numerator != 0))
            got = np.asarray(quotient(numerator, divisor))
            same = np.isnan(wanted) == np.isnan(got)
            same &= np.isnan(wanted) | (
                got.view(f"u{got.itemsize}") == wanted.view(f"u{got.itemsize}")
            )
            assert same[kept].all(), (numerator[kept & ~same], divisor[kept & ~same])


def test_quotients_of_zeros_infinities_and_nans():
    special = np.array([0.0, -0.0, 1.0, -3.0, INF, -INF, NAN], np.float32)
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        wanted = a / b
    got = np.asarray(divide(a, b))
    np.testing.assert_array_equal(got, wanted)
    real = ~np.isnan(wanted)
    assert (np.signbit(got) == np.signbit(wanted))[real].all()


def test_a_broadcast_divisor_is_not_made_a_reciprocal():
    values = np.arange(1, 1000, dtype=np.float32)
    for divisor in (3, 7, 49):
        got = jax.jit(divide)(values, np.float32(divisor))
        assert_same_bits(got, values / np.float32(divisor))


def test_a_product_is_rounded_before_it_is_added():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 10_000)).astype(np.float32)
    assert_same_bits(jax.jit(lambda a, b, c: multiply(a, b) + c)(a, b, c), a * b + c)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16], ids=lambda d: d.__name__)
def test_narrow_floats_go_by_way_of_float32(dtype):
    a, b = (np.random.default_rng(s).uniform(1, 2, 1000).astype(dtype) for s in (0, 1))
    wide = [v.astype(np.float32) for v in (a, b)]
    assert_same_bits(divide(a, b), (wide[0] / wide[1]).astype(dtype))
    assert_same_bits(multiply(a, b), (wide[0] * wide[1]).astype(dtype))


def test_derivatives_of_products_and_quotients():
    a, b = np.array([1.5, -2.0, 3.0], np.float32), np.array([2.0, 0.5, -4.0], np.float32)
    for function in (multiply, divide):
        check_grads(function, (a, b), order=2, modes=["fwd", "rev"], atol=1e-2, rtol=1e-2)
        mapped = jax.vmap(function, (0, None))(np.stack([a, b]), b)
        np.testing.assert_array_equal(mapped, function(np.stack([a, b]), np.stack([b, b])))


# Extremes.


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize("path", ["atomic", "ordered"])
def test_extremes_of_zeros_and_nans_do_not_depend_on_the_order(name, path):
    operand = lanes(0.0, -0.0, 5.0, NAN, -INF, 1.0)
    values = [(0, -0.0), (1, 0.0), (2, NAN), (2, INF), (3, 7.0), (4, -1.0), (9, 3.0), (-1, 3.0)]
    index = np.array([place for place, _ in values], np.int32)[None, :, None]
    updates = lanes(*(value for _, value in values))
    with LOWERINGS[name]():
        low, high = (
            np.asarray(scatter_accumulate(operand, index, updates, decision=decision(path), by=by))
            for by in ("min", "max")
        )
    np.testing.assert_array_equal(low[0, :, 0], [0, 0, NAN, NAN, -INF, 1])
    np.testing.assert_array_equal(high[0, :, 0], [0, 0, NAN, NAN, -1, 1])
    assert np.signbit(low[0, :2, 0]).tolist() == [True, True]
    assert np.signbit(high[0, :2, 0]).tolist() == [False, False]


@pytest.mark.parametrize("by", ["min", "max"])
def test_a_place_without_updates_keeps_its_bits_whichever_nan_it_holds(by):
    words = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 1], np.uint32)
    operand = words.view(np.float32)[None, :, None]
    index = np.full((1, 1, 1), 99)
    out = scatter_accumulate(operand, index, lanes(1), decision=decision(), by=by)
    assert np.asarray(out).view(np.uint32).ravel().tolist() == words.tolist()


@pytest.mark.parametrize(
    "dtype",
    [np.float16, jnp.bfloat16, np.int8, np.uint8, np.uint32, np.int32, np.bool_],
    ids=lambda d: d.__name__,
)
def test_extremes_of_every_dtype(dtype):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (1, 64 * np.dtype(dtype).itemsize, 1), np.uint8)
    updates = raw.reshape(1, -1).view(dtype if dtype is not np.bool_ else np.uint8)[..., None]
    if dtype is np.bool_:
        updates = updates > 127
    if np.dtype(dtype).kind not in "iub":
        updates = np.where(np.isfinite(updates.astype(np.float32)), updates, dtype(0))
    index = rng.integers(0, 5, updates.shape)
    operand = updates[:, :6]
    for by, combine in (("min", np.minimum), ("max", np.maximum)):
        wanted = operand.copy()
        for place, value in zip(index.ravel(), updates.ravel(), strict=True):
            wanted[0, place, 0] = combine(wanted[0, place, 0], value)
        got = scatter_accumulate(operand, index, updates, decision=decision(), by=by)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), wanted.astype(np.float32))


# Derivatives.

INDEX = np.array([0, 2, 0, 1, 0, 2, 7, -1], np.int32)[None, :, None]


def accumulate(by, path="ordered"):
    return lambda x, u: scatter_accumulate(x, INDEX, u, decision=decision(path), by=by)


@pytest.mark.parametrize("path", ["atomic", "ordered"])
@pytest.mark.parametrize("by", ["add", "mul", "min", "max"])
def test_derivatives_agree_with_finite_differences(by, path):
    x = lanes(0.5, -1.5, 2.5, 1.25)
    u = lanes(1.0, -2.0, 3.0, 0.75, -0.5, 1.75, 9.0, 9.0)
    check_grads(accumulate(by, path), (x, u), order=1, modes=["fwd", "rev"], atol=2e-2, rtol=2e-2)


def test_derivatives_of_products_with_zeros():
    def gradients(x, u):
        out, pullback = jax.vjp(accumulate("mul"), x, u)
        return [np.asarray(g).ravel() for g in pullback(jnp.ones_like(out))]

    # The first place has two zeros, the second one, the third none.
    of_x, of_u = gradients(lanes(0, 2, 3, 5), lanes(4, 2, 0, 0, 6, 7, 9, 9))
    np.testing.assert_array_equal(of_x, [0, 0, 14, 1])
    np.testing.assert_array_equal(of_u, [0, 21, 0, 2, 0, 6, 0, 0])


@pytest.mark.parametrize("by", ["min", "max"])
def test_equal_extremes_share_their_gradient_evenly(by):
    x, u = lanes(3, 1, 2, 0), lanes(3, 2, 3, 1, 3, 2, 9, 9)
    out, pullback = jax.vjp(accumulate(by), x, u)
    np.testing.assert_array_equal(np.asarray(out).ravel(), [3, 1, 2, 0])
    of_x, of_u = (np.asarray(g).ravel() for g in pullback(lanes(1, 1, 1, 1)))
    third = np.float32(1) / np.float32(3)
    np.testing.assert_array_equal(of_x, [0.25, 0.5, third, 1])
    np.testing.assert_array_equal(of_u, [0.25, third, 0.25, 0.5, 0.25, third, 0, 0])


@pytest.mark.parametrize("name", DISTINCT)
def test_a_gradient_belongs_to_the_write_that_stayed(name):
    x, u = lanes(1, 2, 3, 4), lanes(10, 20, 30, 40, 50, 60, 70, 80)
    with LOWERINGS[name]():
        assign = functools.partial(scatter_assign, decision=decision())
        out, pullback = jax.vjp(lambda x, u: assign(x, INDEX, u), x, u)
    np.testing.assert_array_equal(np.asarray(out).ravel(), [50, 40, 60, 4])
    of_x, of_u = (np.asarray(g).ravel() for g in pullback(lanes(1, 2, 3, 5)))
    np.testing.assert_array_equal(of_x, [0, 0, 0, 5])
    np.testing.assert_array_equal(of_u, [0, 0, 0, 2, 1, 3, 0, 0])


@pytest.mark.parametrize("seed", range(4))
def test_the_result_and_its_tangent_go_by_the_same_writer_also_where_any_may_stay(seed):
    u = lanes(10, 20, 30, 40, 50, 60, 70, 80)
    with impl.testing.schedule(seed):
        assign = functools.partial(scatter_assign, decision=decision("atomic"))
        out, dot = jax.jvp(lambda u: assign(lanes(1, 2, 3, 4), INDEX, u), (u,), (u,))
    np.testing.assert_array_equal(np.asarray(out)[:, :3], np.asarray(dot)[:, :3])


@pytest.mark.parametrize("by", ["add", "mul", "max", "assign"])
def test_a_batch_gives_the_bits_of_its_members(by):
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((3, 2, 4, 2)), rng.standard_normal((3, 2, 8, 2))
    x, u = x.astype(np.float32), u.astype(np.float32)
    for index, axis in ((np.tile(INDEX, (3, 1, 1, 1)), 0), (INDEX, None)):
        if by == "assign":
            function = functools.partial(scatter_assign, decision=decision())
        else:
            function = functools.partial(scatter_accumulate, decision=decision(), by=by)
        got = jax.vmap(function, (0, axis, 0))(x, index, u)
        each = [function(x[b], INDEX, u[b]) for b in range(3)]
        assert_same_bits(got, np.stack(each))
