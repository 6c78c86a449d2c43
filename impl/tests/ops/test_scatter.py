"""Ops that write or add by index: scatter, scatter_add, scatter_reduce, index_copy and others.

Tests: impl.ops._scatters.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.testing import lower
from impl.tests.ops._indices import V, at, ones
from impl.tests.ops._scatters import IN_RANGE, INDEX, SIZE, WIDE
from impl.tests.support import references
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import whole
from impl.tests.support.programs import kernels

complete = pytest.mark.usefixtures("complete")

#: The keywords of scatter_reduce.
REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]


@complete
def test_a_number_that_is_traced():
    def function(x, v):
        return impl.scatter(x, 0, np.array([2, 1, 2]), value=v)

    assert jax.jit(function)(jnp.ones(4), 3).tolist() == [1, 3, 3, 1]
    assert jax.grad(lambda v: (function(jnp.ones(4), v) * jnp.arange(4.0)).sum())(3.0) == 3


#: Ops, dimensions and keywords. Along the last dimension, an overrun would be in the next row.
FORMS: list[tuple[str, int, dict[str, Any]]] = [
    ("index_add", 0, {}),
    ("index_add", 1, {}),
    ("index_copy", 0, {}),
    ("index_copy", 1, {}),
    ("index_reduce", 0, {"reduce": "mean", "include_self": False}),
    ("index_reduce", 0, {"reduce": "amax", "include_self": False}),
    ("index_reduce", 0, {"reduce": "prod"}),
    ("scatter", 0, {}),
    ("scatter", 1, {}),
    ("scatter", 0, {"reduce": "add"}),
    ("scatter", 0, {"reduce": "multiply"}),
    ("scatter_add", 0, {}),
    ("scatter_add", 1, {}),
    ("scatter_reduce", 1, {"reduce": "mean", "include_self": False}),
    ("scatter_reduce", 1, {"reduce": "amax", "include_self": False}),
    ("scatter_reduce", 1, {"reduce": "prod"}),
]
SUMS = ("index_add", "scatter_add")


def calls(x, index, updates, forms=FORMS, **more):
    """Returns the result of each form, for an index of rows."""
    results = []
    for op, dim, options in forms:
        rows = jnp.stack([index] * x.shape[1], 1) if op.startswith("scatter") else index
        arguments = (x.T, 1, rows.T, updates.T) if dim else (x, 0, rows, updates)
        result = getattr(impl, op)(*arguments, **options, **more)
        results.append(result.T if dim else result)
    return results


def assert_as_referred(x, index, updates, in_range, forms=FORMS):
    """Compares each form with a reference of the indices in range.

    The arrays hold whole numbers, for which a reference has the bits of every order.
    """
    results = jax.jit(functools.partial(calls, forms=forms))(x, index, updates)
    for (op, dim, options), got in zip(forms, results, strict=True):
        how = {"reduce": "sum"} if op in SUMS else options
        want = references.scattered(x, 0, index[in_range], updates[in_range], **how)
        assert_same_bits(got, want.astype(x.dtype), f"{op} {dim} {options}")


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    rng = np.random.default_rng(0)
    input, source = whole(rng, (SIZE, 2)), whole(rng, (len(INDEX), 2))
    assert_as_referred(input, INDEX, source, IN_RANGE)
    for dtype in (np.int32, np.bool_):
        of_ones = np.ones_like(source, dtype)
        assert_as_referred(np.zeros_like(input, dtype), INDEX, of_ones, IN_RANGE, FORMS[:1])
    to_nothing = jax.jit(functools.partial(calls, forms=FORMS[:1]))
    assert to_nothing(input[:0], np.array([0, 1]), source[:2])[0].shape == (0, 2)
    wide = np.stack([INDEX, INDEX], 1)
    got = jax.jit(lambda x, i: impl.scatter(x, 0, i, 2.0, reduce="add"))(input, wide)
    twos = np.full((len(INDEX), 2), np.float32(2))
    want = references.scattered(input, 0, wide[IN_RANGE], twos[IN_RANGE], "sum")
    assert_same_bits(got, want.astype(np.float32))


def test_atomic_kernels_drop_what_is_out_of_range():
    rng = np.random.default_rng(0)
    with impl.testing.emulate("cuda"):
        updates = whole(rng, (len(INDEX), 2))
        assert_as_referred(whole(rng, (SIZE, 2)), INDEX, updates, IN_RANGE, FORMS[:4])


@pytest.mark.usefixtures("path")
def test_a_wide_index_is_not_narrowed_first():
    updates = np.array([[8.0, 8], [2, 2], [8, 8]])
    with jax.enable_x64(True):
        assert_as_referred(np.ones((3, 2)), WIDE, updates, WIDE == 1)


@complete
def test_gradients_of_dropped_updates_are_zero():
    rng = np.random.default_rng(0)
    input = rng.standard_normal((SIZE, 2)).astype(np.float32)
    updates = rng.standard_normal((len(INDEX), 2)).astype(np.float32)

    @jax.jit
    def gradients(index, updates):
        results = []
        for form in FORMS:
            out, pullback = jax.vjp(lambda x, u, f=form: calls(x, index, u, [f])[0], input, updates)
            results.append(pullback(jnp.ones_like(out)))
        return results

    wanted = gradients(INDEX[IN_RANGE], updates[IN_RANGE])
    for form, got, want in zip(FORMS, gradients(INDEX, updates), wanted, strict=True):
        of_input, of_updates = map(np.asarray, got)
        assert not of_updates[~IN_RANGE].any(), form
        np.testing.assert_allclose(of_input, want[0], rtol=1e-5, err_msg=str(form))
        np.testing.assert_allclose(of_updates[IN_RANGE], want[1], rtol=1e-5, err_msg=str(form))


@complete
@pytest.mark.usefixtures("lowering")
def test_the_gradient_belongs_to_the_write_that_stayed():
    index, weight = np.array([2, 0, 2, 3, 2]), np.array([1, 10, 100, 1000], np.float32)

    @jax.jit
    def gradients(x, s):
        writes = (
            lambda x, s: impl.scatter(x, 0, index, s),
            lambda x, s: impl.index_copy(x, 0, index, s),
            lambda x, s: impl.put(x, index, s),
            lambda x, s: impl.index_put(x, (index,), s),
        )
        pulls = [jax.vjp(write, x, s)[1] for write in writes]
        return [pull(jnp.asarray(weight)) for pull in pulls]

    for of_input, of_source in gradients(np.ones(4, np.float32), np.ones(5, np.float32)):
        assert of_input.tolist() == [0, 10, 0, 0]
        assert of_source.tolist() == [0, 1, 0, 1000, 100]


# Bits. The suite tests them with the index as an argument; here it is part of the program.


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_elements_without_updates_keep_their_bits(name):
    initial = np.array([-0.0, 0, np.nan, 7], np.float32)[:, None]
    initial[2:3] = np.array([0x7FC12345], np.uint32).view(np.float32)
    index, source = np.array([3, 3, 3]), np.array([[1], [2], [3]], np.float32)
    # An exact sum turns -0 into 0, since the initial value is one of its terms.
    forms = [
        ("index_copy", 0, {}),
        ("scatter", 0, {}),
        *(
            ("scatter_reduce", 0, options)
            for options in REDUCTIONS
            if options["reduce"] not in ("sum", "mean")
        ),
    ]
    with LOWERINGS[name]():
        results = jax.jit(lambda x, s: calls(x, index, s, forms))(initial, source)
    for form, got in zip(forms, results, strict=True):
        assert_same_bits(got[:3], initial[:3], str(form))


@pytest.mark.triton
@complete
@pytest.mark.parametrize(
    ("op", "options", "want"),
    [
        ("index_copy", {}, [3, 1, 2, 4]),
        ("index_reduce", {"reduce": "mean"}, [2, 1, 1.5, 2.5]),
        ("scatter", {}, [3, 1, 2, 4]),
        ("scatter", {"reduce": "multiply"}, [3, 1, 2, 4]),
        ("scatter_reduce", {"reduce": "sum"}, [4, 1, 3, 5]),
    ],
)
def test_a_promise_of_unique_indices_leaves_the_program_to_xla(op, options, want):
    initial, source = np.ones((4, 1), np.float32), np.array([[2.0], [3], [4]], np.float32)

    def function(x, **more):
        return calls(x, at(2, 0, 3), source, [(op, 0, options)], **more)[0]

    assert function(initial, unique_indices=True)[:, 0].tolist() == want
    promised = lower(functools.partial(function, unique_indices=True), initial)
    assert kernels(promised) == set()
    assert "stablehlo.sort" not in promised.as_text()
    # The last write to an element is found without a kernel.
    assert bool(kernels(lower(function, initial))) == bool(options)


def test_bad_arguments_come_before_an_alert():
    with (
        impl.deterministic(profile="torch-2.12"),
        impl.testing.emulate("cuda"),
        pytest.raises(RuntimeError, match="index 3 is out of bounds"),
    ):
        impl.scatter_reduce(V, 0, at(3), ones(1), "prod")
