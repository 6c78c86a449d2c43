"""nll_loss, cross_entropy and ctc_loss.

Tests: impl.nn.functional._ctc.
"""

import itertools

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


def test_all_elements_are_ignored():
    ignored = np.full(4, -100)
    x = np.full((4, 3), np.nan, np.float32)

    def call(x, reduction):
        return F.nll_loss(x, ignored, W, reduction=reduction)

    @jax.jit
    def run(x):
        gradients = [jax.grad(call)(x, reduction) for reduction in ("mean", "sum")]
        return F.nll_loss(x, ignored), call(x, "none"), gradients

    mean, _, gradients = run(ROWS)
    assert np.isnan(mean)
    for gradient in gradients:
        assert_same_bits(gradient, np.zeros((4, 3), np.float32))
    assert_same_bits(run(x)[1], np.zeros(4, np.float32))


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


def test_infinities_and_large_values():
    big = np.float32(1e4)
    x = np.array([[big, big - 1, 0], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf, 0, 1]], np.float32)
    certain = np.array([[1, 0, 0]], np.float32)

    @jax.jit
    def run(x):
        return (
            F.cross_entropy(x, np.array([0, 0, 1, 2]), reduction="none"),
            F.cross_entropy(x[:1], certain),
            jax.grad(lambda x: F.cross_entropy(x, np.array([2])))(x[3:]),
        )

    losses, of_probabilities, gradient = run(x)
    np.testing.assert_allclose(losses[0], np.log1p(np.exp(-1)), rtol=1e-6)
    np.testing.assert_allclose(of_probabilities, losses[0], rtol=1e-6)
    assert losses[1] == np.inf
    assert np.isnan(losses[2])
    np.testing.assert_allclose(losses[3], np.log1p(np.exp(-1)), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, 0.26894143, -0.26894143]], rtol=1e-6)


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


def enumerated(x, target, blank=0):
    """Returns the loss by all paths, in float64, and the expected count of classes by time."""
    likelihood, expected = 0.0, np.zeros(x.shape)
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == list(target):
            probability = np.exp(x[np.arange(len(x)), list(path)].astype(np.float64).sum())
            likelihood += probability
            expected[np.arange(len(x)), list(path)] += probability
    return -np.log(likelihood), expected / likelihood


@pytest.mark.parametrize("blank", [0, 3])
def test_the_loss_is_that_of_all_paths(blank):
    target = np.array([1, 1, 2])
    x = X[:, 0]

    def call(x):
        return F.ctc_loss(x, target, np.array(6), np.array([3]), blank=blank)

    @jax.jit
    def run(x):
        # The gradient of log_softmax turns PyTorch's gradient into the derivative.
        of_logits = jax.grad(lambda logits: call(jax.nn.log_softmax(logits)))(x + 1)
        return *jax.value_and_grad(call)(x), of_logits

    want, expected = enumerated(x, target, blank)
    out, gradient, of_logits = run(x)
    assert out.shape == ()
    np.testing.assert_allclose(out, want / 3, rtol=1e-5)
    np.testing.assert_allclose(gradient, (np.exp(x) - expected) / 3, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(of_logits, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_targets_that_do_not_fit_their_input(zero_infinity):
    # Two equal labels need a blank between them. The last target is longer than its input.
    t = np.array([[1, 1, 3, 1, 1, 1, 1, 1], [2, 2, 1, 1, 1, 1, 1, 1], [1, 2, 3, 2, 1, 2, 1, 2]])
    x = np.concatenate([X, X[:, :1]], 1)
    il, tl = np.array([6, 2, 6]), np.array([3, 2, 8])

    def losses(x, reduction):
        return F.ctc_loss(x, t, il, tl, reduction=reduction, zero_infinity=zero_infinity)

    @jax.jit
    def run(x):
        out, pullback = jax.vjp(lambda x: losses(x, "none"), x)
        return out, pullback(jnp.ones(3))[0], losses(x, "sum"), losses(x, "mean")

    out, gradient, *reduced = map(np.asarray, run(x))
    infinite = 0 if zero_infinity else np.inf
    assert out[1:].tolist() == [infinite] * 2
    assert np.isfinite(out[0])
    want = (out[0], out[0] / 9) if zero_infinity else (np.inf, np.inf)
    np.testing.assert_allclose(reduced, want, rtol=1e-6)
    assert np.all(np.isfinite(gradient[:, 0]))
    assert np.any(gradient[:, 0])
    assert not np.any(gradient[2:, 1])  # After the end of the input.
    for of_target in (gradient[:2, 1], gradient[:, 2]):
        assert np.all(of_target == 0) if zero_infinity else np.all(np.isnan(of_target))


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


def test_empty_targets():
    empty = np.zeros((2, 0), int)

    @jax.jit
    def run(x, target_lengths):
        def losses(targets, lengths):
            return F.ctc_loss(x, targets, IL, lengths, reduction="none")

        return (
            losses(empty, np.array([0, 0])),
            losses(empty.reshape(0), (0, 0)),
            losses(empty.reshape(0), target_lengths),
        )

    in_two_dimensions, in_one_dimension, unknown = run(X, np.array([0, 1]))
    want = [-X[:6, 0, 0].sum(), -X[:5, 1, 0].sum()]
    np.testing.assert_allclose(in_two_dimensions, want, rtol=1e-6)
    assert_same_bits(in_one_dimension, in_two_dimensions)
    assert np.isnan(unknown).tolist() == [False, True]


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
