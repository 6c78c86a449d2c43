"""Arrays and checks for the tests of scatters and of gathers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import impl
from impl.testing import lower
from impl.tests.support import references
from impl.tests.support.bits import assert_all_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.programs import kernels

#: A length, and indices from -2**31 to 2**31 - 1; those from 0 to the length are in range.
SIZE = 5
INDEX = np.array([3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (INDEX >= 0) & (INDEX < SIZE)
#: Indices that int32 cannot hold, for an axis of length 3, and one that it can.
WIDE = np.array([2**32 + 1, 1, -(2**32)])


@functools.cache
def contributions(destinations, count, width, dtype=np.float32):
    """Returns initial values, an index and a source, of which half goes to a few destinations.

    Sums are long, some destinations have no contribution, and zeros of both signs occur.
    """
    rng = np.random.default_rng((destinations, count, width))
    index = np.where(
        rng.random(count) < 0.5,
        rng.integers(0, destinations, count),
        rng.integers(0, min(3, destinations), count),
    )
    source = spread(rng, (count, width), dtype)
    source[::7] = -0.0
    initial = spread(rng, (destinations, width), dtype)
    initial[:: max(1, destinations // 3)] = -0.0
    return initial, index, source


#: Around the panel of 1024: below, at and above it, several panels, and panels longer than 1024.
SIZES = [
    (1, 1, 1),
    (3, 1024, 2),
    (3, 1025, 1),
    (5, 3072, 3),
    (1025, 2049, 1),
    (1500, 4500, 2),
]
#: One element, several panels, and several panels longer than 1024.
FEW_SIZES = [SIZES[0], SIZES[3], SIZES[5]]


def drawn(shape, dim, count, seed=0):
    """Returns an input, a longer source, an index of elements and an index of slices."""
    rng = np.random.default_rng((seed, *shape))
    size = shape[dim] if shape else 1
    longer = list(shape)
    if shape:
        longer[dim] = count
    input, src = (np.asarray(rng.standard_normal(s), np.float32) for s in (shape, longer))
    return input, src, np.asarray(rng.integers(0, size, longer)), rng.integers(0, size, count)


def assert_unique_indices_need_no_order(function, initial, want, *, writes=False):
    """Requires that a promise of unique indices gives the program of the mode off.

    Args:
        function: The op, as a function of the input and of the keyword ``unique_indices``.
        initial: The input, a column.
        want: The elements of the result.
        writes: Whether the op writes, and adds nothing. It has one path then.
    """
    assert function(initial, unique_indices=True)[:, 0].tolist() == want
    promised = lower(functools.partial(function, unique_indices=True), initial)
    with impl.deterministic(False):
        off = lower(function, initial)
    assert kernels(promised) == kernels(off)
    assert (kernels(lower(function, initial)) == kernels(off)) == writes


#: The keywords of scatter_reduce.
REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]


def reference(op):
    """Returns the reference of scatter, scatter_add or scatter_reduce."""
    options = {"reduce": "sum"} if op == "scatter_add" else {}
    return functools.partial(references.scattered, **options)


DTYPES = [np.float16, jnp.bfloat16, np.int8, np.uint8, np.int32, np.uint32, bool, np.complex64]


def assert_dropped_updates_have_no_gradient(calls):
    """Requires that updates out of range change no gradient, and have gradients of zero.

    Args:
        calls: A function of an input of ``SIZE`` rows, an index of rows, and updates, to the
            results of several calls.
    """
    rng = np.random.default_rng(0)
    input = rng.standard_normal((SIZE, 2)).astype(np.float32)
    updates = rng.standard_normal((len(INDEX), 2)).astype(np.float32)

    @jax.jit
    def gradients(index, updates):
        outs, pullback = jax.vjp(lambda x, u: calls(x, index, u), input, updates)
        return pullback([jnp.ones_like(out) for out in outs])

    of_input, of_updates = gradients(INDEX, updates)
    assert not np.asarray(of_updates)[~IN_RANGE].any()
    want = gradients(INDEX[IN_RANGE], updates[IN_RANGE])
    np.testing.assert_allclose(of_input, want[0], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(of_updates)[IN_RANGE], want[1], rtol=1e-5)


def assert_wide_indices_are_dropped(results_and_references):
    """Requires that an index which int32 cannot hold is dropped, and not narrowed first.

    Args:
        results_and_references: A function of an input, an index, updates, and which of them are in
            range, to results and references.
    """
    updates = np.array([[8.0, 8], [2, 2], [8, 8]])
    with jax.enable_x64(True):
        results = results_and_references(np.ones((3, 2)), WIDE, updates, WIDE == 1)
    assert_all_same_bits(*results)
