"""embedding, embedding_bag, and the arguments of lookups of rows.

Tests: impl.nn.functional._embeddings.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal, spread
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
#: A table of 5 rows, and indices of its rows.
WEIGHT = normal((5, 3))
INDEX = np.random.default_rng(0).integers(0, 5, 10)
#: Indices of rows, some of which are out of range.
OUT_OF_RANGE = np.array([3, -1, 0, 5, 3, 12, -5, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (OUT_OF_RANGE >= 0) & (OUT_OF_RANGE < 5)


@pytest.mark.parametrize("order", [2.0, 1.0, np.inf])
def test_complex_rows(order):
    w = (WEIGHT[:, :2] + 1j * WEIGHT[:, 1:]).astype(np.complex64)
    cotangent = (WEIGHT[INDEX][:, :2] - 2j).astype(np.complex64)

    @jax.jit
    def run(w, cotangent):
        out, pullback = jax.vjp(lambda w: F.embedding(INDEX, w, 1, 1.0, order), w)
        return out, pullback(cotangent)[0]

    out, gradient = run(w, cotangent)
    norm = np.linalg.norm(w, order, 1)[:, None]
    np.testing.assert_allclose(out, np.where(norm > 1, w / (norm + 1e-7), w)[INDEX], **CLOSE)
    want = np.zeros_like(w)
    np.add.at(want, INDEX, cotangent)
    want[1] = 0
    np.testing.assert_allclose(gradient, want, **CLOSE)


def test_forward_derivatives_omit_padding_and_divide_as_gradients_do():
    @jax.jit
    def run(w, tangent):
        return jax.jvp(lambda w: F.embedding(INDEX, w, 1, None, 2.0, True), (w,), (tangent,))[1]

    count = np.bincount(INDEX, minlength=5)
    tangent = run(WEIGHT, np.ones_like(WEIGHT))
    np.testing.assert_allclose(tangent[:, 0], np.where(INDEX == 1, 0, 1 / count[INDEX]), rtol=1e-6)


#: Many indices of few rows.
LONG = np.random.default_rng(1).integers(0, 3, 2100)


@pytest.mark.usefixtures("portable")
def test_gradients_of_narrow_rows_are_divided_and_then_rounded():
    @jax.jit
    def run(w, cotangent):
        return jax.vjp(lambda w: F.embedding(LONG, w, 1, None, 2.0, True), w)[1](cotangent)[0]

    cotangent = spread(np.random.default_rng(0), (2100, 2), np.float16)
    sums = oracles.source(np.zeros((3, 2), np.float32), LONG, cotangent.astype(np.float32))
    want = (sums / np.bincount(LONG)[:, None].astype(np.float32)).astype(np.float16)
    want[1] = 0
    assert_same_bits(run(np.zeros((3, 2), np.float16), cotangent), want)


@pytest.mark.usefixtures("path")
def test_rows_out_of_range_are_nan_under_jit_and_have_no_gradient():
    @jax.jit
    def run(index, w, cotangent):
        rows, pullback = jax.vjp(lambda w: F.embedding(index, w), w)
        scaled = lambda w: F.embedding(index, w, -2, None, 2.0, True)  # noqa: E731
        options = {"padding_idx": 2, "scale_grad_by_freq": True, "max_norm": 100.0}
        gradients = pullback(cotangent)[0], jax.vjp(scaled, w)[1](cotangent)[0]
        return rows, F.embedding(index, w, **options), *gradients

    want = np.where(IN_RANGE[:, None], WEIGHT[np.where(IN_RANGE, OUT_OF_RANGE, 0)], np.nan)
    rows, bounded, gradient, scaled = run(OUT_OF_RANGE, WEIGHT, np.ones((10, 3), np.float32))
    np.testing.assert_array_equal(rows, want)
    np.testing.assert_array_equal(bounded, want)
    assert_same_bits(gradient[:, 0], np.array([1, 1, 0, 2, 0], np.float32))
    assert_same_bits(scaled[:, 0], np.array([1, 1, 0, 0, 0], np.float32))


def test_an_index_of_64_bits_is_checked_before_it_is_narrowed():
    wide = np.array([2**32 + 1, 1])
    with pytest.raises(RuntimeError, match="index 4294967297"):
        F.embedding_bag(wide[None], WEIGHT)


MODES = ("sum", "mean", "max")
PAIRS = INDEX.reshape(5, 2)
OFFSETS = np.array([0, 0, 3, 7, 10])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_gradient_is_divided_by_the_frequency_of_a_row(mode):
    # PyTorch's CPU kernel divides by counts of other rows, so it is not a reference here.
    @jax.jit
    def run(w, cotangent):
        calls = [
            lambda w, scaled=scaled: F.embedding_bag(INDEX, w, OFFSETS, None, 2, scaled, mode)
            for scaled in (True, False)
        ]
        return [jax.vjp(call, w)[1](cotangent)[0] for call in calls]

    got, gradient = run(WEIGHT, normal((5, 3), 1))
    want = gradient / np.maximum(np.bincount(INDEX, minlength=5), 1)[:, None]
    np.testing.assert_allclose(got, want, **CLOSE)


@pytest.mark.parametrize("mode", MODES)
def test_empty_bags_that_pytorch_refuses(mode):
    def bags(index, offsets=None, w=WEIGHT, last=False):
        return F.embedding_bag(index, w, offsets, mode=mode, include_last_offset=last)

    @jax.jit
    def run(w):
        return (
            bags(np.zeros((2, 0), int), w=w),
            bags(INDEX, np.array([0]), w, last=True),
            bags(PAIRS, w=w[:, :0]),
        )

    results = run(WEIGHT)
    assert [got.shape for got in results] == [(2, 3), (0, 3), (5, 0)]
    assert not any(np.any(got) for got in results)


def test_maxima_of_equal_elements_and_nan():
    table = np.array([[1, -0.0], [np.nan, 0.0], [2, -np.inf], [2, -np.inf]], np.float32)

    run = jax.jit(lambda *index: F.embedding_bag(*index, mode="max")[0])

    def greatest(*index):
        of_rows = run(np.array([index]), table)
        assert_same_bits(run(np.array(index), table, np.array([0])), of_rows)
        return of_rows

    # The first of equal elements is the maximum, with its sign. NaN is greater than every number.
    assert_same_bits(greatest(2, 0, 3), np.array([2, -0.0], np.float32))
    assert np.signbit(greatest(0, 1)).tolist()[1] is True
    assert np.signbit(greatest(1, 0)).tolist()[1] is False
    for order in itertools.permutations([0, 1, 2]):
        assert np.isnan(greatest(*order)[0])
    assert greatest(3, 2)[1] == -np.inf


@pytest.mark.usefixtures("path")
def test_the_first_of_equal_elements_has_the_gradient():
    table = np.array([[1, 5], [1, 5], [1, np.nan], [0, np.nan], [9, 9]], np.float32)
    lowest = np.array([[-np.inf, -np.inf]] * 5, np.float32)
    index = np.array([4, 3, 2, 1, 0])
    bag = functools.partial(F.embedding_bag, mode="max", padding_idx=4)
    for call in (lambda w: bag(index[None], w), lambda w: bag(index, w, np.array([0]))):
        gradient = jax.jit(jax.grad(lambda w: call(w).sum()))  # noqa: B023
        assert gradient(table).tolist() == [[0, 0], [0, 0], [1, 0], [0, 1], [0, 0]]
        assert gradient(lowest).tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [0, 0]]


@pytest.mark.usefixtures("path")
def test_a_bag_with_a_row_out_of_range_is_nan_under_jit():
    pairs = OUT_OF_RANGE.reshape(5, 2)
    in_range = IN_RANGE.reshape(5, 2).all(1)

    @jax.jit
    def run(index, w, cotangent):
        rows = []
        for mode in MODES:
            out, pullback = jax.vjp(lambda w, m=mode: F.embedding_bag(index, w, mode=m), w)
            rows.append((out, pullback(cotangent)[0]))
        return rows

    results = run(pairs, WEIGHT, np.ones((5, 3), np.float32))
    for out, gradient in results:
        assert np.isnan(np.asarray(out)).all(1).tolist() == (~in_range).tolist()
        assert np.all(np.isfinite(gradient))
    assert results[0][1][:, 0].tolist() == [1, 1, 0, 2, 0]


@pytest.mark.usefixtures("path")
def test_elements_in_no_bag_have_no_effect():
    # Elements before the first offset, after the last one, and of the padding are NaN or infinite.
    w = WEIGHT.copy()
    w[4], w[2] = np.nan, np.inf
    index = np.array([4, 2, 0, 1, 2, 3, 4, 2])
    factors = np.array([np.inf, np.nan, 2, 2, np.nan, 2, np.inf, np.nan], np.float32)

    @jax.jit
    def run(index, w, offsets, factors, cotangent):
        rows = []
        for mode in MODES:

            def call(w, factors, mode=mode):
                return F.embedding_bag(
                    index,
                    w,
                    offsets,
                    mode=mode,
                    per_sample_weights=factors if mode == "sum" else None,
                    include_last_offset=True,
                    padding_idx=2,
                )

            out, pullback = jax.vjp(call, w, factors)
            rows.append((out, *pullback(cotangent)))
        return rows

    cotangent = np.full((2, 3), 3, np.float32)
    results = run(index, w, np.array([2, 5, 6]), factors, cotangent)
    for mode, result in zip(MODES, results, strict=True):
        out, of_w, of_factors = map(np.asarray, result)
        scale = 2 if mode == "sum" else 1
        total = WEIGHT[:2].sum(0)
        first = {"sum": total * 2, "mean": total * 0.5, "max": WEIGHT[:2].max(0)}[mode]
        np.testing.assert_allclose(out, np.stack([first, WEIGHT[3] * scale]), rtol=1e-6)
        assert not np.any(of_w[[2, 4]])
        np.testing.assert_allclose(of_w[:2].sum(0), {"sum": 12, "mean": 3, "max": 3}[mode])
        assert of_w[3].tolist() == [3 * scale] * 3
        assert not np.any(of_factors[[0, 1, 4, 6, 7]])


def test_known_offsets_are_checked_under_jit():
    with pytest.raises(RuntimeError, match="must ascend"):
        jax.jit(lambda w: F.embedding_bag(INDEX, w, np.array([0, 3, 2])))(WEIGHT)


def test_unknown_offsets_give_the_bits_of_known_offsets():
    offsets = jnp.array([0, 3, 3, 8])
    known = jax.jit(lambda w: F.embedding_bag(INDEX, w, offsets))(WEIGHT)
    unknown = jax.jit(lambda o: F.embedding_bag(INDEX, WEIGHT, o))(offsets)
    assert_same_bits(unknown, known)
