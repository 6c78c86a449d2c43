"""nll_loss, cross_entropy and ctc_loss.

Tests: impl.nn.functional._ctc.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


ROWS = normal((4, 3))
LABELS = np.array([0, 2, 1, 0])
W = np.array([0.5, 2, 1.5], np.float32)


def test_targets_of_uint8_or_without_a_batch_and_deprecated_arguments():
    want = -ROWS[np.arange(4), LABELS]
    assert_same_bits(F.nll_loss(ROWS, LABELS.astype(np.uint8), reduction="none"), want)
    assert_same_bits(F.nll_loss(ROWS[0], np.array([1]), reduction="none"), -ROWS[0, 1])
    assert_same_bits(
        F.nll_loss(ROWS, LABELS.astype(np.uint8), reduction="none", ignore_index=300), want
    )
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert_same_bits(F.nll_loss(ROWS, LABELS, reduce=False), want)
    with pytest.warns(UserWarning, match="use reduction='sum' instead"):
        got = F.nll_loss(ROWS, LABELS, size_average=False)
    assert_same_bits(got, F.nll_loss(ROWS, LABELS, reduction="sum"))


def test_targets_out_of_range_under_jit():
    targets = np.array([0, 3, -1, -100], np.int32)

    @jax.jit
    def call(x, t):
        out, pullback = jax.vjp(lambda x: F.nll_loss(x, t, W, reduction="none"), x)
        return out, pullback(jnp.ones_like(out))[0]

    out, gradient = call(ROWS, targets)
    assert np.isnan(out).tolist() == [False, True, True, False]
    want = np.zeros((4, 3), np.float32)
    want[0, 0] = -W[0]
    assert_same_bits(gradient, want)
    with jax.enable_x64(True):
        wide = np.array([2**32, 0, 0, 0])
        assert np.isnan(np.asarray(call(ROWS, wide)[0])).tolist() == [True, False, False, False]
    with pytest.raises(IndexError, match="Target 4294967296"):
        F.nll_loss(ROWS, wide)


def test_dtypes_are_promoted_and_deprecated_arguments_warn():
    x, p = np.ones((64, 5), np.float32), np.ones((64, 5), np.float32)
    for dtype in (np.float16, jnp.bfloat16):
        for arrays in ((x, p.astype(dtype)), (x.astype(dtype), p)):
            assert jax.eval_shape(F.cross_entropy, *arrays).dtype == np.float32
    assert jax.eval_shape(F.cross_entropy, ROWS, LABELS.astype(np.uint8)).dtype == np.float32
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert jax.eval_shape(lambda x: F.cross_entropy(x, LABELS, reduce=False), ROWS).shape == (
            4,
        )


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


X = log_softmax(normal((6, 2, 4)))
T = np.array([[1, 2, 2], [2, 3, 1]])
#: The targets one after another.
FLAT = np.array([1, 2, 2, 2, 3])
IL, TL = np.array([6, 5]), np.array([3, 2])
SUM_AND_GRADIENT = jax.jit(
    lambda x, t, il, tl: jax.value_and_grad(
        lambda x: F.ctc_loss(x, t, il, tl, zero_infinity=True, reduction="sum")
    )(x)
)


def test_a_class_of_probability_zero_has_a_finite_gradient():
    # In PyTorch it is NaN.
    x = X.copy()
    x[2, 0, 3] = -np.inf
    x[5, 1] = np.nan  # After the end of the input.
    out, gradient = SUM_AND_GRADIENT(x, T, IL, TL)
    assert np.isfinite(out)
    assert np.all(np.isfinite(gradient))
    assert gradient[2, 0, 3] == 0


def test_the_gradient_of_a_target_whose_last_label_is_the_blank():
    # PyTorch's gradient omits a term at the last time.
    t, n = np.array([[1, 0]]), (np.array([6]), np.array([2]))
    with jax.enable_x64(True):
        x = X[:, :1].astype(np.float64)
        run = jax.jit(jax.value_and_grad(lambda x: F.ctc_loss(x, t, *n, reduction="sum")))
        derivative = run(x)[1] - np.exp(x)
        steps = 1e-5 * np.eye(x.size).reshape(-1, *x.shape)
        differences = [(run(x + step)[0] - run(x - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(np.ravel(derivative), differences, atol=1e-8)


def test_labels_and_lengths_out_of_range_under_jit():
    @jax.jit
    def call(t, il, tl):
        return F.ctc_loss(X, t, il, tl, reduction="none", zero_infinity=True)

    def is_nan(t=T, il=IL, tl=TL):
        return np.isnan(np.asarray(call(t, il, tl))).tolist()

    assert is_nan() == [False, False]
    assert is_nan(t=np.array([[1, 4, 1], [1, 2, 4]])) == [True, False]
    assert is_nan(t=np.array([[1, 2, 1], [-1, 2, 4]])) == [False, True]
    assert is_nan(il=np.array([7, 5])) == [True, False]
    assert is_nan(il=np.array([6, -1])) == [False, True]
    assert is_nan(tl=np.array([4, 2])) == [True, False]
    assert is_nan(tl=np.array([3, -1])) == [False, True]
    assert is_nan(t=FLAT, tl=np.array([3, 3])) == [False, True]
    assert is_nan(t=FLAT[:0], tl=np.array([0, 1])) == [False, True]
    # Under jit the lengths are unknown, so one target might have all labels.
    np.testing.assert_allclose(call(FLAT, IL, TL), call(T, IL, TL), rtol=1e-6)


def test_labels_and_lengths_of_other_dtypes():
    @jax.jit
    def known(x):
        of_dtypes = [
            F.ctc_loss(x, *(array.astype(dtype) for array in (T, IL, TL)))
            for dtype in (np.int64, np.uint8, np.int16)
        ]
        return [*of_dtypes, F.ctc_loss(x, T, (6, 5), [3, 2])]

    want, *others = known(X)
    for other in others:
        assert_same_bits(other, want)
    for dtype in (np.uint8, np.int16):
        unknown = jax.jit(F.ctc_loss)(X, *(array.astype(dtype) for array in (T, IL, TL)))
        np.testing.assert_allclose(unknown, want, rtol=1e-6)


def test_a_second_derivative_is_refused():
    hessian = jax.jit(jax.hessian(lambda x: F.ctc_loss(x, T, IL, TL)))
    with pytest.raises(NotImplementedError, match="second derivative is not implemented"):
        hessian(X)


def test_the_mode_refuses_derivatives_on_a_gpu_and_not_the_loss():
    def call(x):
        return F.ctc_loss(x, T, IL, TL)

    with impl.deterministic(profile="torch-2.12"):
        impl.testing.lower(call, X, platform="cuda")
        for derivative in (jax.grad(call), lambda x: jax.jvp(call, (x,), (x,))[1]):
            with pytest.raises(RuntimeError, match="ctc_loss_backward_gpu does not have a det"):
                impl.testing.lower(derivative, X, platform="cuda")
            impl.testing.lower(derivative, X, platform="cpu")


def test_memory_for_long_inputs():
    times, n, classes, longest = 1000, 64, 128, 100
    x = jax.ShapeDtypeStruct((times, n, classes), np.float32)
    t, lengths = jax.ShapeDtypeStruct((n, longest), np.int32), jax.ShapeDtypeStruct((n,), np.int32)
    gradient = jax.grad(lambda x, *rest: F.ctc_loss(x, *rest, reduction="sum"))
    memory = jax.jit(gradient).lower(x, t, lengths, lengths).compile().memory_analysis()
    # Four arrays of states, and two of classes.
    of_states, of_classes = times * n * (2 * longest + 1) * 4, times * n * classes * 4
    assert memory.temp_size_in_bytes < 4.5 * of_states + 2.5 * of_classes


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_a_further_call_with_known_lengths_compiles_nothing(shape, caplog):
    log_probs = jnp.zeros((5, 2, 4))
    targets, inputs = jnp.ones(shape, jnp.int32), jnp.asarray([5, 4])
    lengths = jnp.asarray([1, 2])
    F.ctc_loss(log_probs, targets, inputs, lengths)
    with jax.log_compiles():
        F.ctc_loss(log_probs, targets, inputs, lengths)
    assert not [record for record in caplog.records if "ompil" in record.getMessage()]
