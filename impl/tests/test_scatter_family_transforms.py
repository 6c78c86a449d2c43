"""scatter, scatter_reduce, index_reduce, index_copy: derivatives and transformations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl.tests._support import LOWERINGS, assert_same_bits, bits, spread

pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
REDUCTIONS = [
    (reduce, include_self)
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]

PLACES = np.array([[2, 0, 0], [0, 2, 0], [2, 2, 0], [1, 0, 0], [2, 2, 1]])
SLOTS = np.array([2, 0, 2, 1, 2])
#: With ties, and zeros among factors; halves apart from the source if the input is no part of it.
TIES = np.array([[0, 1, 2], [1, 0, 1], [2, 2, 0], [3, 3, 3]], np.float32)
SOURCE = np.array([[1, 0, 0], [2, 0, 2], [1, 1, 2], [0, 2, 1], [0, 1, 0]], np.float32)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


@pytest.mark.parametrize("op", ["scatter_reduce", "index_reduce"])
@pytest.mark.filterwarnings("ignore:.*in beta:UserWarning")
def test_gradients_are_those_of_torch(op):
    torch = pytest.importorskip("torch", reason="the peer is not installed")
    index = PLACES if op == "scatter_reduce" else SLOTS

    def calls(space, i, x, half, s):
        # PyTorch gives the input a share in what it is equal to by chance.
        return [
            getattr(space, op)(
                x if include_self else half, 0, i, s, reduce, include_self=include_self
            )
            for reduce, include_self in REDUCTIONS
            if (op, reduce) != ("index_reduce", "sum")
        ]

    arrays = (TIES, TIES + 0.5, SOURCE)
    own = jax.jit(
        jax.jacrev(
            lambda *a: jnp.stack([(o * WEIGHT).sum() for o in calls(impl, index, *a)]), (0, 1, 2)
        )
    )(*arrays)
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    for place, out in enumerate(calls(torch, torch.from_numpy(index), *tensors)):
        theirs = torch.autograd.grad(
            (out * torch.from_numpy(WEIGHT)).sum(), tensors, allow_unused=True
        )
        for got, want in zip(own, theirs, strict=True):
            expected = np.zeros_like(got[place]) if want is None else want.numpy()
            np.testing.assert_allclose(got[place], expected, rtol=1e-5, err_msg=str(place))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_an_infinity_that_is_not_in_the_input_has_no_share(reduce):
    infinity = -np.inf if reduce == "amax" else np.inf
    index, source = np.array([0, 0, 1]), np.array([infinity, infinity, 1], np.float32)

    def gradients(include_self):
        def loss(x, s):
            return impl.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)[0]

        return [g.tolist() for g in jax.grad(loss, (0, 1))(np.full(2, infinity), source)]

    assert gradients(include_self=False) == [[0, 0], [0.5, 0.5, 0]]
    third = float(np.float32(1) / np.float32(3))
    assert gradients(include_self=True) == [[third, 0], [third, third, 0]]


@pytest.mark.parametrize("name", ["native", "xla", "seed 1"])
def test_the_gradient_belongs_to_the_write_that_stayed(name):
    weight = np.array([1, 10, 100, 1000], np.float32)
    index = np.array([2, 0, 2, 3, 2])
    calls = [
        lambda x, s: impl.scatter(x, 0, index, s),
        lambda x, s: impl.index_copy(x, 0, index, s),
    ]
    with LOWERINGS[name]():
        for function in calls:
            pullback = jax.vjp(function, np.ones(4), np.ones(5))[1]
            of_input, of_source = pullback(jnp.asarray(weight))
            assert of_input.tolist() == [0, 10, 0, 0]
            assert of_source.tolist() == [0, 1, 0, 1000, 100]


def test_tangents_of_extremes_are_in_order_too():
    # The extreme is the same in any order, and the sum of the tangents of all that share it is not.
    index, ones = np.zeros(3000, int), np.ones(3000, np.float32)
    tangents = spread(np.random.default_rng(0), 3000)

    def tangent(include_self):
        def function(s):
            return impl.index_reduce(ones[:1], 0, index, s, "amax", include_self=include_self)

        return bits(jax.jvp(function, (ones,), (tangents,))[1])

    for include_self in (True, False):
        found = set()
        for seed in range(2):
            with impl.testing.schedule(seed):
                found.add(tangent(include_self))
        found.add(tangent(include_self))
        assert len(found) == 1
    with impl.deterministic(False):
        assert tangent(include_self=True) not in found


# Transformations, of calls of each kind.


def every(x, i, s):
    """Results of one shape, of an index of slices."""
    wide = jnp.stack([i] * x.shape[1], 1)
    return jnp.stack(
        [
            impl.scatter(x, 0, wide, s),
            impl.scatter(x, 0, wide, s, reduce="multiply"),
            impl.index_copy(x, 0, i, s),
            impl.scatter_reduce(x, 0, wide, s, "mean", include_self=False),
            impl.scatter_reduce(x, 0, wide, s, "amax", include_self=False),
            impl.index_reduce(x, 0, i, s, "amin"),
        ]
    )


#: No two numbers so close that a finite difference takes one for the other.
NUMBERS = (1 + RNG.permutation(27) / 16).astype(np.float32).reshape(9, 3)
X, S = NUMBERS[:4], NUMBERS[4:]


def test_derivatives_against_finite_differences():
    check_grads(
        jax.jit(lambda x, s: (every(x, SLOTS, s) ** 2).sum((1, 2))),
        (X, S),
        order=1,
        modes=("fwd", "rev"),
        atol=0.05,
        rtol=0.05,
        eps=1e-2,
    )


def test_checkpoint_recomputes_the_same_bits():
    def gradients(wrap, x, s):
        def loss(x, s):
            return (wrap(lambda x, s: every(x, SLOTS, s) ** 2)(x, s) * 3).sum()

        return jax.jit(jax.grad(loss, (0, 1)))(x, s)

    again, plain = gradients(jax.checkpoint, X, S), gradients(lambda f: f, X, S)
    for got, want in zip(again, plain, strict=True):
        assert_same_bits(got, want)


def test_second_derivatives():
    # Of the mean of squares of a linear function, and of extremes away from ties.
    def loss(s):
        mean = impl.index_reduce(X, 0, SLOTS, s, "mean", include_self=False)
        most = impl.index_reduce(X, 0, SLOTS, s, "amax", include_self=False)
        return ((mean**2).sum() + (most**2).sum()) / 2

    got = np.asarray(jax.jit(jax.hessian(loss))(S)).reshape(15, 15)
    want = np.zeros((5, 3, 5, 3))
    for place in range(3):
        for column in range(3):
            own = np.flatnonzero(place == SLOTS)
            best = own[np.argmax(S[own, column])]
            want[best, column, best, column] += 1
            for a in own:
                want[a, column, own, column] += 1 / len(own) ** 2
    np.testing.assert_allclose(got, want.reshape(15, 15), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("native", (0, 0, 0)),
        ("native", (None, 0, None)),
        ("native", (0, None, 0)),
        ("native", (None, None, 0)),
        ("seed 1", (0, 0, None)),
    ],
)
def test_vmap_has_the_bits_of_single_calls(name, axes):
    arrays = [
        spread(RNG, (2, 4, 3)),
        RNG.integers(0, 3, (2, 9)),
        1 + spread(RNG, (2, 9, 3)) / 64,
    ]
    given = [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]
    with LOWERINGS[name]():
        got = jax.jit(jax.vmap(every, axes))(*given)
    for k in range(2):
        own = [a[k] if axis == 0 else a for a, axis in zip(given, axes, strict=True)]
        assert_same_bits(got[k], ONE(*own))


ONE = jax.jit(every)


def test_shard_map():
    split = PartitionSpec("d")
    mapped = jax.shard_map(
        every,
        mesh=Mesh(np.array(jax.devices()[:1]), ("d",)),
        in_specs=(split, PartitionSpec(), split),
        out_specs=PartitionSpec(None, "d"),
    )

    def results(call, x, s):
        out, pullback = jax.vjp(lambda x, s: call(x, SLOTS, s), x, s)
        return out, *pullback(out)

    for got, want in zip(
        jax.jit(functools.partial(results, mapped))(X, S),
        jax.jit(functools.partial(results, every))(X, S),
        strict=True,
    ):
        assert_same_bits(got, want)


def test_integers_are_differentiated_through():
    def function(x, n):
        lowest = impl.scatter_reduce(n, 0, SLOTS, n[:5], "amin", include_self=False)
        mean = impl.index_reduce(n, 0, SLOTS, n[:5], "mean")
        return (x * (lowest + mean)).sum()

    numbers = jnp.arange(6)
    gradient = jax.grad(function)(jnp.ones(6), numbers)
    assert gradient.dtype == np.float32
    assert gradient[5] == 10
