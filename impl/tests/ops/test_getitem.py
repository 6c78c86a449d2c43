"""getitem: the meaning of expressions, bits of its gradient, and bad arguments."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._expressions import MASK, ONE, PARTS, A, B, C, as_torch, expressions, label
from impl.tests.ops._indices import (
    NO_INDEX,
    X,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together

complete = pytest.mark.usefixtures("complete")

#: Expressions that NumPy reads as PyTorch does.
AS_NUMPY = [
    1,
    -1,
    np.int64(1),
    ONE,
    slice(None),
    slice(5, 9),
    slice(-2, None),
    slice(1, 0),
    (),
    ...,
    None,
    (0, 1, 2, 3),
    (..., 1),
    (slice(None, None, 2), None, -1, ..., slice(1, None, 3)),
    True,
    False,
    (slice(None), True),
    np.True_,
    np.array(False),
    A,
    C.astype(np.int32) % 2,
    [1, 0, 1],
    [],
    range(2),
    NO_INDEX,
    (A, C[:2]),
    (slice(None), B, A),
    (slice(None), B, slice(None), A),
    (slice(None), C[:2], slice(2), None, A),
    (A, ..., A),
    (..., C, 1),
    (0, A, A),
    ([0, 1], slice(None), [[1], [2]]),
    (slice(None), (0, 2)),
    (slice(None), [True, False, True]),
    (slice(None), MASK),
    (slice(None), MASK, np.array([1])),
    (..., X[0, 0] % 3 > 1),
    (True, A),
    np.ones((2, 3, 4, 5), bool),
    X > 50,
]

#: Expressions that NumPy reads in another way, each with the result of PyTorch.
NOT_AS_NUMPY = [
    # A list of anything but numbers is a tuple.
    ([A, C[:2]], X[A, C[:2]]),
    ([None, A], X[None, A]),
    ([[0, 1], [1, 2]], X[[0, 1], [1, 2]]),
    ([slice(None), 0], X[:, 0]),
    # PyTorch applies the ints first. Then it decides where the dimensions of arrays go.
    ((0, slice(None), C), X[0][:, C]),
    ((ONE, slice(None), C), X[1][:, C]),
    ((A, 0, slice(None), A), X[:, 0][A, :, A]),
    ((slice(None), 0, C), X[:, 0][:, C]),
    # uint8 is a mask.
    ((slice(None), np.array([0, 1, 1], np.uint8)), X[:, [1, 2]]),
    (np.uint8(1), X[1]),
    (np.array(1, np.uint8), X[None]),
    # Further ellipses stand for nothing.
    ((..., A, ...), X[..., A]),
    ((0, ..., 1, ...), X[0, ..., 1]),
]


@complete
@pytest.mark.parametrize("expression", [(A, ..., A), (slice(None), B, A), 1])
def test_an_eager_call(expression):
    got = impl.getitem(X, expression)
    assert isinstance(got, jax.Array)
    assert_same_bits(got, X[expression])


@complete
def test_expressions_as_numpy_reads_them():
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression in AS_NUMPY])(X)
    for expression, got in zip(AS_NUMPY, results, strict=True):
        assert_same_bits(got, X[expression], label(expression))


@complete
def test_expressions_as_numpy_does_not_read_them():
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression, _ in NOT_AS_NUMPY])(X)
    for (expression, want), got in zip(NOT_AS_NUMPY, results, strict=True):
        assert_same_bits(got, want, label(expression))


@complete
def test_other_shapes():
    number, empty = np.float32(3), np.zeros((0, 3), np.float32)
    five = np.arange(32.0, dtype=np.float32).reshape(2, 2, 2, 2, 2)
    cases = [
        (number, (), number),
        (number, ..., number),
        *((number, expression, np.array([3], np.float32)) for expression in (None, True, np.True_)),
        (number, np.False_, np.zeros(0, np.float32)),
        (empty, NO_INDEX, empty),
        (empty, (slice(None), A), empty[:, :2]),
        (empty, slice(1, 5), empty),
        (five, (..., A, A[::-1]), five[..., A, A[::-1]]),
    ]
    results = jax.jit(lambda xs: [impl.getitem(x, c[1]) for x, c in zip(xs, cases, strict=True)])(
        [x for x, _, _ in cases]
    )
    for (_, expression, want), got in zip(cases, results, strict=True):
        assert_same_bits(got, want, label(expression))


@complete
def test_torch_reads_expressions_alike(torch):
    tensor, valid, wrong = torch.from_numpy(X), {}, 0
    for expression in expressions(PARTS, 50, seed=0):
        if sum(part is ... for part in expression) > 1:
            continue  # PyTorch takes only some of these.
        try:
            want = tensor[tuple(as_torch(torch, part) for part in expression)].numpy()
        except IndexError:
            wrong += 1
            with pytest.raises(IndexError):
                impl.getitem(X, expression)
            continue
        valid[str(expression)] = expression, want
    results = jax.jit(lambda x: [impl.getitem(x, expression) for expression, _ in valid.values()])(
        X
    )
    for name, got in zip(valid, results, strict=True):
        assert_same_bits(got, valid[name][1], name)
    assert len(valid) > 30
    assert wrong > 2


def split(expression):
    """Returns the arrays of an expression, and a function that replaces them by others."""
    arrays = [part for part in expression if isinstance(part, np.ndarray)]

    def rebuild(others):
        rest = iter(others)
        return tuple(next(rest) if isinstance(p, np.ndarray) else p for p in expression)

    return arrays, rebuild


@complete
def test_traced_arrays_read_the_same_and_gradients_add_up():
    rng, calls, wanted, traced = np.random.default_rng(0), {}, {}, 0
    numbers = np.arange(X.size).reshape(X.shape)
    for expression in expressions([p for p in PARTS if p is not ...], 14, seed=1, longest=4):
        arrays, rebuild = split(expression)
        try:
            # The position of each element that is read.
            flat = np.asarray(impl.getitem(numbers, expression))
        except IndexError:
            continue
        traced += bool(arrays)

        def both(x, arrays, weight, rebuild=rebuild):
            out, pullback = jax.vjp(lambda x: impl.getitem(x, rebuild(arrays)), x)
            return out, pullback(weight)[0]

        weight = rng.integers(-9, 9, flat.shape).astype(np.float32)
        gradient = np.zeros(X.size, np.float32)
        np.add.at(gradient, flat, weight)
        calls[str(expression)] = both, X, arrays, weight
        wanted[str(expression)] = X.reshape(-1)[flat], gradient.reshape(X.shape)
    for name, (out, gradient) in run_together(calls).items():
        np.testing.assert_array_equal(out, wanted[name][0], err_msg=name)
        np.testing.assert_array_equal(gradient, wanted[name][1], err_msg=name)
    assert traced > 5


# Bits of the gradient, and facts.


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [np.arange(2)]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [0, 2]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), True), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), np.array(1)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), (slice(2), None)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"unique_indices": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(3) > 0), {"unique_indices": True}),
        (lambda: impl.getitem(np.ones((2, 3)), (np.arange(2), 0)), {"unique_indices": False}),
    ],
)
def test_facts(call, facts):
    with impl.testing.questions() as asked:
        call()
    assert len(asked) == 1
    assert {name: asked[0].facts[name] for name in facts} == facts
