"""ctc_loss: values and gradients, infinite losses, bad arguments and transformations."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import assert_refused, assert_same_bits, assert_torch_refuses

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


X = log_softmax(RNG.standard_normal((6, 2, 4))).astype(np.float32)
T = np.array([[1, 2, 2], [2, 3, 1]])
#: The targets one after another.
FLAT = np.array([1, 2, 2, 2, 3])
IL, TL = np.array([6, 5]), np.array([3, 2])
BOTH = jax.jit(
    lambda x, t, il, tl: jax.value_and_grad(
        lambda x: F.ctc_loss(x, t, il, tl, zero_infinity=True, reduction="sum")
    )(x)
)

#: Targets that repeat labels, name the blank, are empty or do not fit; inputs that end early.
TARGETS = np.array([[1, 2, 3], [2, 2, 1], [3, 3, 3], [2, 0, 1], [1, 99, -5], [2, 1, 3], [1, 1, 2]])
INPUT_LENGTHS = np.array([6, 6, 4, 6, 5, 0, 2])
TARGET_LENGTHS = np.array([3, 2, 3, 3, 1, 0, 2])


def cases():
    """Keywords, whether targets lie side by side, and log_probs, in float64."""
    rng = np.random.default_rng(1)
    everything = itertools.product(["none", "mean", "sum"], [False, True], [True, False])
    for number, (reduction, zero_infinity, side_by_side) in enumerate(everything):
        x = rng.standard_normal((6, len(TARGETS), 4)) * [1, 5, 30][number % 3]
        # Not normed ones too, and such as lie beyond what float32 can hold.
        x = log_softmax(x) if number % 4 else x
        yield {"reduction": reduction, "zero_infinity": zero_infinity}, side_by_side, x


def flat(targets, lengths):
    return np.concatenate([row[:length] for row, length in zip(targets, lengths, strict=True)])


def test_values_and_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    tried, wanted, cotangents = list(cases()), [], []
    one_by_one = flat(TARGETS, TARGET_LENGTHS)
    for given, side_by_side, x in tried:
        value = torch.from_numpy(x).requires_grad_()
        targets = torch.tensor(TARGETS if side_by_side else one_by_one)
        lengths = torch.tensor(INPUT_LENGTHS), torch.tensor(TARGET_LENGTHS)
        want = torch.nn.functional.ctc_loss(value, targets, *lengths, **given)
        ct = RNG.standard_normal(want.shape)
        slope = torch.autograd.grad(want, value, torch.tensor(ct))[0]
        wanted.append((want.detach().numpy(), slope.numpy()))
        cotangents.append(ct)

    def ours(inputs, cotangents):
        for number, (x, ct) in enumerate(zip(inputs, cotangents, strict=True)):
            given, side_by_side, _ = tried[number]
            lengths = (INPUT_LENGTHS, TARGET_LENGTHS)
            if number % 2:
                lengths = tuple(tuple(each.tolist()) for each in lengths)
            targets = TARGETS if side_by_side else one_by_one
            call = lambda x, t=targets, n=lengths, g=given: F.ctc_loss(x, t, *n, **g)  # noqa: E731
            out, pull = jax.vjp(call, x)
            yield out, pull(ct)[0]

    with jax.enable_x64(True):
        found = jax.jit(lambda *args: list(ours(*args)))([x for *_, x in tried], cotangents)
    for (given, *_), (out, gradient), (want, slope) in zip(tried, found, wanted, strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12, err_msg=str(given))
        # A difference of exponentials: near 0 it is as exact as they are.
        scale = np.max(np.abs(slope), initial=1, where=np.isfinite(slope))
        assert np.isnan(gradient).tolist() == np.isnan(slope).tolist()
        np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-12 * scale)


def enumerated(x, target, blank=0):
    """The loss by all paths, in float64, and how often each class is expected at each time."""
    likelihood, expected = 0.0, np.zeros(x.shape)
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == list(target):
            probability = np.exp(x[np.arange(len(x)), list(path)].astype(np.float64).sum())
            likelihood += probability
            expected[np.arange(len(x)), list(path)] += probability
    return -np.log(likelihood), expected / likelihood


@pytest.mark.parametrize("blank", [0, 3])
def test_a_loss_is_that_of_all_paths(blank):
    target = np.array([1, 1, 2])
    x = X[:, 0]

    def call(x):
        return F.ctc_loss(x, target, np.array(6), np.array([3]), blank=blank)

    want, expected = enumerated(x, target, blank)
    out, gradient = jax.jit(jax.value_and_grad(call))(x)
    assert out.shape == ()
    np.testing.assert_allclose(out, want / 3, rtol=1e-5)
    np.testing.assert_allclose(gradient, (np.exp(x) - expected) / 3, rtol=1e-4, atol=1e-6)
    # Behind log_softmax it is the derivative.
    logits = x + 1
    behind = jax.jit(jax.grad(lambda z: call(jax.nn.log_softmax(z))))(logits)
    np.testing.assert_allclose(behind, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_a_target_that_does_not_fit(zero_infinity):
    # Two equal labels need a blank between them; and a target longer than the array is long.
    t = np.array([[1, 1, 3, 1, 1, 1, 1, 1], [2, 2, 1, 1, 1, 1, 1, 1], [1, 2, 3, 2, 1, 2, 1, 2]])
    x = np.concatenate([X, X[:, :1]], 1)
    il, tl = np.array([6, 2, 6]), np.array([3, 2, 8])

    def losses(x, reduction):
        return F.ctc_loss(x, t, il, tl, reduction=reduction, zero_infinity=zero_infinity)

    @jax.jit
    def every(x):
        out, pull = jax.vjp(lambda x: losses(x, "none"), x)
        return out, pull(jnp.ones(3))[0], losses(x, "sum"), losses(x, "mean")

    out, gradient, *sums = map(np.asarray, every(x))
    infinite = 0 if zero_infinity else np.inf
    assert out[1:].tolist() == [infinite] * 2
    assert np.isfinite(out[0])
    right = (out[0], out[0] / 9) if zero_infinity else (np.inf, np.inf)
    np.testing.assert_allclose(sums, right, rtol=1e-6)
    assert np.all(np.isfinite(gradient[:, 0]))
    assert np.any(gradient[:, 0])
    assert not np.any(gradient[2:, 1])  # beyond the input's end
    for found in (gradient[:2, 1], gradient[:, 2]):
        assert np.all(found == 0) if zero_infinity else np.all(np.isnan(found))


def test_a_class_without_probability_has_a_gradient():
    # PyTorch's is NaN there.
    x = X.copy()
    x[2, 0, 3] = -np.inf
    x[5, 1] = np.nan  # beyond its input
    out, gradient = BOTH(x, T, IL, TL)
    assert np.isfinite(out)
    assert np.all(np.isfinite(gradient))
    assert gradient[2, 0, 3] == 0


def test_a_gradient_where_the_last_label_is_the_blank():
    # PyTorch's leaves out a part at the last time.
    t, n = np.array([[1, 0]]), (np.array([6]), np.array([2]))
    with jax.enable_x64(True):
        x = X[:, :1].astype(np.float64)
        call = jax.jit(lambda x: F.ctc_loss(x, t, *n, reduction="sum"))
        got = jax.grad(call)(x) - np.exp(x)
        steps = 1e-5 * np.eye(x.size).reshape(-1, *x.shape)
        central = [(call(x + step) - call(x - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(np.ravel(got), central, atol=1e-8)


LONG = (np.array([7, 5]), TL)
#: Arguments, keywords, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    ((X, T, *LONG), {}, RuntimeError, "input_lengths to have value at most 6, but got value 7"),
    ((X, T, np.array([-1, 5]), TL), {}, RuntimeError, "value at least 0, but got value -1"),
    ((X, T, IL, np.array([3, -2])), {}, RuntimeError, "got value -2 at position 1"),
    ((X, T, IL, np.array([4, 2])), {}, RuntimeError, "size at least 4, the greatest of"),
    ((X, FLAT, IL, np.array([3, 3])), {}, RuntimeError, "size 6, the sum of target_lengths"),
    ((X, FLAT, IL, np.array([3, 1])), {}, RuntimeError, "dimension 0, but got size 5"),
    ((X, T, IL[:1], TL), {}, RuntimeError, "input_lengths must be of size batch_size, 2, but got"),
    ((X, T, (6, 5), (3, 2, 1)), {}, RuntimeError, "target_lengths must be of size batch_size"),
    ((X, T, IL.astype(np.float32), TL), {}, RuntimeError, "input_lengths must be integral"),
    ((X, T, IL, TL > 2), {}, RuntimeError, "target_lengths must be integral, but got bool"),
    ((X, T[:1], IL, TL), {}, RuntimeError, "Expected targets of shape [2, S]"),
    ((X, T[None], IL, TL), {}, RuntimeError, "but got shape [1, 2, 3]"),
    ((X, T[0, 0], IL, TL), {}, RuntimeError, "but got shape []"),
    ((X[0, 0], T, IL, TL), {}, RuntimeError, "must have 2 or 3 dimensions"),
    ((X[:0], T, IL, TL), {}, RuntimeError, "must not be empty, but got shape [0, 2, 4]"),
    ((X.astype(int), T, IL, TL), {}, NotImplementedError, "'log_probs'; it takes floats"),
    ((X, T, IL, TL, 4), {}, RuntimeError, "blank must be in label range, 0 to 3, but got 4"),
    ((X, T, IL, TL, -1), {}, RuntimeError, "but got -1"),
    ((X, T, IL, TL, 1.0), {}, TypeError, "'blank' must be int, not float"),
    ((X, T, IL, TL), {"zero_infinity": 1}, TypeError, "'zero_infinity' must be bool"),
    ((X, T, IL, TL), {"reduction": "max"}, ValueError, "max is not a valid value for reduction"),
    (([0.0], T, IL, TL), {}, TypeError, "'log_probs' must be"),
    ((X, [[1]], IL, TL), {}, TypeError, "'targets' must be"),
    ((X[:, 0], T[0], 6, 3), {}, TypeError, "'input_lengths' must be"),
    ((X, T, (6.0, 5.0), (3, 2)), {}, TypeError, "'input_lengths[0]' must be int"),
]
#: As above, where PyTorch reads beyond the end of an array, or takes floats for labels.
OWN: list[tuple[Any, ...]] = [
    ((X, T + 2, IL, TL), {}, IndexError, "Target 4 is out of bounds, at position [0, 1]"),
    ((X, FLAT - 2, IL, TL), {}, IndexError, "Target -1 is out of bounds, at position [0]"),
    ((X, T.astype(np.float32), IL, TL), {}, RuntimeError, "targets must be integral"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "fragment"), BAD + OWN)
def test_bad_arguments(arguments, options, error, fragment):
    assert_refused(F.ctc_loss, arguments, options, error, fragment)


def test_torch_raises_the_same():
    torch = pytest.importorskip("torch")
    for arguments, options, error, _ in BAD:
        assert_torch_refuses(torch, torch.nn.functional.ctc_loss, arguments, options, error)


def test_what_is_out_of_range_where_nobody_knows():
    @jax.jit
    def call(t, il, tl):
        return F.ctc_loss(X, t, il, tl, reduction="none", zero_infinity=True)

    def wrong(t=T, il=IL, tl=TL):
        return np.isnan(np.asarray(call(t, il, tl))).tolist()

    assert wrong() == [False, False]
    assert wrong(t=np.array([[1, 4, 1], [1, 2, 4]])) == [True, False]
    assert wrong(t=np.array([[1, 2, 1], [-1, 2, 4]])) == [False, True]
    assert wrong(il=np.array([7, 5])) == [True, False]
    assert wrong(il=np.array([6, -1])) == [False, True]
    assert wrong(tl=np.array([4, 2])) == [True, False]
    assert wrong(tl=np.array([3, -1])) == [False, True]
    assert wrong(t=FLAT, tl=np.array([3, 3])) == [False, True]
    # Lengths are unknown, so each target may be as long as all.
    np.testing.assert_allclose(call(FLAT, IL, TL), call(T, IL, TL), rtol=1e-6)


def test_labels_and_lengths_of_other_dtypes():
    want = F.ctc_loss(X, T, IL, TL)
    for dtype in (np.uint8, np.int16):
        given = [a.astype(dtype) for a in (T, IL, TL)]
        assert_same_bits(F.ctc_loss(X, *given), want)
        np.testing.assert_allclose(jax.jit(F.ctc_loss)(X, *given), want, rtol=1e-6)
    assert_same_bits(F.ctc_loss(X, T, (6, 5), [3, 2]), want)
    narrow = X.astype(jnp.bfloat16)
    want = F.ctc_loss(narrow.astype(np.float32), T, IL, TL)
    assert_same_bits(F.ctc_loss(narrow, T, IL, TL), np.asarray(want).astype(jnp.bfloat16))


def test_empty_targets():
    none = np.zeros((2, 0), int)
    got = F.ctc_loss(X, none, IL, np.array([0, 0]), reduction="none")
    np.testing.assert_allclose(got, [-X[:6, 0, 0].sum(), -X[:5, 1, 0].sum()], rtol=1e-6)
    assert_same_bits(F.ctc_loss(X, none.reshape(0), IL, (0, 0), reduction="none"), got)
    unknown = jax.jit(lambda n: F.ctc_loss(X, none.reshape(0), IL, n, reduction="none"))
    assert np.isnan(np.asarray(unknown(np.array([0, 1])))).tolist() == [False, True]


def each(x, t, il, tl):
    return F.ctc_loss(x, t, il, tl, reduction="none")


def test_transformations():
    close = {"rtol": 1e-5, "atol": 1e-6}

    def loss(x):
        return F.ctc_loss(x, T, IL, TL, reduction="sum")

    gradient = jax.jit(jax.grad(loss))(X)
    other = jax.jit(jax.grad(jax.checkpoint(loss)))(X)
    np.testing.assert_allclose(other, gradient, **close)
    dots = RNG.standard_normal(X.shape).astype(np.float32)
    dot = jax.jit(lambda d: jax.jvp(loss, (X,), (d,))[1])(dots)
    np.testing.assert_allclose(dot, np.vdot(gradient, dots), rtol=1e-4)
    # Of two batches, over everything.
    batches = [np.stack([a, a[..., ::-1, :] if a.ndim > 1 else a[::-1]]) for a in (X, T, IL, TL)]
    both = jax.jit(jax.vmap(lambda x, *rest: jax.vjp(lambda x: each(x, *rest), x)[1](jnp.ones(2))))
    got = np.asarray(both(*batches)[0])
    np.testing.assert_allclose(got[0], gradient, **close)
    np.testing.assert_allclose(got[1], gradient[:, ::-1], **close)


def test_inside_shard_map():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    split, along = PartitionSpec("d"), PartitionSpec(None, "d")

    def gradient(x, t, il, tl):
        return jax.grad(lambda x: each(x, t, il, tl).sum())(x)

    specs = {"in_specs": (along, split, split, split), "out_specs": along}
    mapped = jax.jit(jax.shard_map(gradient, mesh=mesh, **specs))
    want = BOTH(X, T, IL, TL)[1]
    np.testing.assert_allclose(mapped(X, T, IL, TL), want, rtol=1e-5, atol=1e-6)


def test_a_second_derivative_is_refused():
    hessian = jax.jit(jax.hessian(lambda x: F.ctc_loss(x, T, IL, TL)))
    with pytest.raises(NotImplementedError, match="second derivative is not implemented"):
        hessian(X)


def test_a_raise_is_met_where_it_is_differentiated_alone():
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
    gradient = jax.grad(lambda x, *rest: each(x, *rest).sum())
    memory = jax.jit(gradient).lower(x, t, lengths, lengths).compile().memory_analysis()
    # Four arrays of states, and two of classes.
    states, whole = times * n * (2 * longest + 1) * 4, times * n * classes * 4
    assert memory.temp_size_in_bytes < 4.5 * states + 2.5 * whole
