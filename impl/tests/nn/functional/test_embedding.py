"""embedding."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.embeddings import IN_RANGE, INDEX, OUT_OF_RANGE, WEIGHT
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


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


def test_no_indices():
    empty = np.zeros(0, np.int64)

    @jax.jit
    def run(w):
        return jax.value_and_grad(lambda w: F.embedding(empty, w, 1, 1.0, 2.0, True).sum())(w)

    total, gradient = run(WEIGHT)
    assert total == 0
    assert not np.any(gradient)
    assert F.embedding(empty.reshape(0, 2), WEIGHT).shape == (0, 2, 3)
    assert F.embedding(empty, WEIGHT[:0], 0).shape == (0, 3)


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


def test_a_known_index_is_checked_under_jit():
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        jax.jit(lambda w: F.embedding(np.array([5]), w))(WEIGHT)


def test_an_index_of_64_bits_is_checked_before_it_is_narrowed():
    wide = np.array([2**32 + 1, 1])
    with pytest.raises(IndexError, match="index 4294967297"):
        F.embedding(wide, WEIGHT)
    with jax.enable_x64(True):
        got = jax.jit(F.embedding)(wide, WEIGHT)
        assert np.isnan(np.asarray(got)[:, 0]).tolist() == [True, False]


ONE = np.array([0])
SHORT = np.zeros(1, np.int16)
REALS = np.zeros(1, np.float32)

#: Positional arguments, options, exception, fragment of the message
BAD: list[Call] = [
    ((np.array([0, 5]), WEIGHT), IndexError, "index 5 is out of bounds for a weight"),
    ((np.array([[0, -1]]), WEIGHT), IndexError, "position [0, 1] of argument 'input'"),
    (([0], WEIGHT), TypeError, "'input' must be"),
    ((ONE, [[0.0]]), TypeError, "'weight' must be"),
    ((SHORT, WEIGHT), RuntimeError, "int32/int64 for input but got: int16"),
    ((REALS, WEIGHT), RuntimeError, "for input but got: float32"),
    ((ONE, WEIGHT[0]), RuntimeError, "must be 2-D, but got shape [3]"),
    ((ONE, WEIGHT, 5), {}, AssertionError, "-5 through 4, but got 5"),
    ((ONE, WEIGHT, -6), {}, AssertionError, "but got -6"),
    ((ONE, WEIGHT, 1.0), TypeError, "'padding_idx' must be int, not float"),
    ((ONE, WEIGHT, True), TypeError, "'padding_idx' must be int, not bool"),
    ((ONE, WEIGHT, None, "1"), TypeError, "'max_norm' must be Number, not str"),
    ((ONE, WEIGHT, None, 1j), TypeError, "'max_norm' must be float, not complex"),
    ((ONE, WEIGHT, None, 1.0, "2"), TypeError, "'norm_type' must be float, not str"),
    ((ONE, WEIGHT, None, 1.0, None), TypeError, "'norm_type' must be float"),
    ((ONE, WEIGHT.astype(int), None, 1.0), RuntimeError, "got int32"),
    ((ONE, WEIGHT), {"scale_grad_by_freq": 1}, TypeError, "'scale_grad_by_freq' must be"),
    ((ONE, WEIGHT), {"sparse": 1}, TypeError, "'sparse' must be bool, not int"),
]
#: Arguments for which PyTorch has another exception, or whose exception depends on the mode.
OWN: list[Call] = [((ONE, WEIGHT[:0]), IndexError, "none is allowed")]


class TestBadArguments(BadArgumentsOfFunctional):
    op = "embedding"
    calls = BAD
    unlike_torch = OWN
