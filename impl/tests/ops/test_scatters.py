"""Ops that write, add or reduce by index: scatter, scatter_add, index_add, index_reduce and others.

Tests: impl.ops._scatters, impl.ops._reductions.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.testing import lower
from impl.tests.ops._indices import INDEX, INSIDE, SIZE, WIDE, V
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import spread, whole
from impl.tests.support.programs import kernels, run_together
from spec import oracles

complete = pytest.mark.usefixtures("complete")

#: Ops, dimensions and keywords. Along the last dimension, an overrun would be in the next row.
FORMS: list[tuple[str, int, dict[str, Any]]] = [
    ("index_add", 0, {}),
    ("index_add", 1, {}),
    ("index_copy", 0, {}),
    ("index_reduce", 0, {"reduce": "mean", "include_self": False}),
    ("index_reduce", 0, {"reduce": "amax", "include_self": False}),
    ("scatter", 1, {}),
    ("scatter", 0, {"reduce": "add"}),
    ("scatter", 0, {"reduce": "multiply"}),
    ("scatter_add", 0, {}),
    ("scatter_add", 1, {}),
    ("scatter_reduce", 1, {"reduce": "mean", "include_self": False}),
    ("scatter_reduce", 1, {"reduce": "amax", "include_self": False}),
    ("scatter_reduce", 1, {"reduce": "prod"}),
]


def calls(x, index, updates, forms=FORMS, **more):
    """Returns the result of each form, for an index of rows."""
    results = []
    for op, dim, options in forms:
        rows = jnp.stack([index] * x.shape[1], 1) if op.startswith("scatter") else index
        arguments = (x.T, 1, rows.T, updates.T) if dim else (x, 0, rows, updates)
        result = getattr(impl, op)(*arguments, **options, **more)
        results.append(result.T if dim else result)
    return results


#: Whole numbers, for which a result has the bits of every order.
INPUT, UPDATES = (whole(np.random.default_rng(n), (n, 2)) for n in (SIZE, len(INDEX)))


@jax.jit
def gradients(index, updates):
    """Returns the result of each form, and its gradients by the input and by the updates."""
    results = []
    for form in FORMS:
        out, pullback = jax.vjp(lambda x, u, f=form: calls(x, index, u, [f])[0], INPUT, updates)
        results.append((out, *pullback(jnp.ones_like(out))))
    return results


@functools.cache
def inside():
    """Returns the same without the updates out of range."""
    with impl.deterministic(profile="complete"):
        return gradients(INDEX[INSIDE], UPDATES[INSIDE])


def assert_dropped(forms=FORMS):
    results = jax.jit(functools.partial(calls, forms=forms))(INPUT, INDEX, UPDATES)
    for form, got, (want, *_) in zip(forms, results, inside(), strict=False):
        assert_same_bits(got, want, str(form))


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    assert_dropped()
    add, number = (
        jax.jit(lambda x, i, u: impl.index_add(x, 0, i, u)),
        jax.jit(lambda x, i: impl.scatter(x, 0, i, 2.0, reduce="add")),
    )
    pairs = np.stack([INDEX, INDEX], 1)
    assert_same_bits(number(INPUT, pairs), number(INPUT, pairs[INSIDE]))
    assert add(INPUT[:0], np.array([0, 1]), UPDATES[:2]).shape == (0, 2)
    for dtype in (np.int32, np.bool_):
        got = add(np.zeros_like(INPUT, dtype), INDEX, np.ones_like(UPDATES, dtype))
        want = np.bincount(INDEX[INSIDE], minlength=SIZE).astype(dtype)
        assert_same_bits(got, np.stack([want, want], 1))


def test_atomic_kernels_drop_what_is_out_of_range():
    with impl.testing.emulate("cuda"):
        assert_dropped(FORMS[:4])


@complete
def test_gradients_of_dropped_updates_are_zero():
    for form, got, want in zip(FORMS, gradients(INDEX, UPDATES), inside(), strict=True):
        _, of_input, of_updates = map(np.asarray, got)
        assert not of_updates[~INSIDE].any(), form
        np.testing.assert_allclose(of_input, want[1], rtol=1e-5, err_msg=str(form))
        np.testing.assert_allclose(of_updates[INSIDE], want[2], rtol=1e-5, err_msg=str(form))


@complete
def test_a_wide_index_is_not_narrowed_first():
    updates = np.array([[8.0, 8], [2, 2], [8, 8], [8, 8]])
    with jax.enable_x64(True):
        results = jax.jit(calls)(np.ones((3, 2)), WIDE, updates)
    for form, got in zip(FORMS, results, strict=True):
        assert got[::2].tolist() == [[1, 1], [1, 1]], form
        assert got[1].tolist() in ([2, 2], [3, 3]), form


@complete
def test_a_number_that_is_traced():
    def function(x, v):
        return impl.scatter(x, 0, np.array([2, 1, 2]), value=v)

    assert jax.jit(function)(jnp.ones(4), 3).tolist() == [1, 3, 3, 1]
    assert jax.grad(lambda v: (function(jnp.ones(4), v) * jnp.arange(4.0)).sum())(3.0) == 3


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
            ("scatter_reduce", 0, {"reduce": reduce, "include_self": include_self})
            for reduce in ("prod", "amax", "amin")
            for include_self in (True, False)
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
        return calls(x, np.array([2, 0, 3]), source, [(op, 0, options)], **more)[0]

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
        impl.scatter_reduce(V, 0, np.array([3]), V[:1], "prod")


# Sums.


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


def add(x, i, s):
    return impl.index_add(x, 0, i, s)


@complete
def test_alpha():
    index, rng = np.array([2, 0, 2, 1]), np.random.default_rng(0)
    for dtype, alpha in [(np.int32, 3), (np.float16, 0.5), (np.float32, 2)]:
        input, source = (whole(rng, (n, 2), 4).astype(dtype) for n in (3, 4))
        want = input.copy()
        np.add.at(want, index, (alpha * source).astype(dtype))

        @jax.jit
        def calls(traced, input=input, source=source, alpha=alpha):
            forms = (alpha, np.asarray(alpha), jnp.asarray(alpha), traced)
            return [impl.index_add(input, 0, index, source, alpha=form) for form in forms]

        for got in calls(alpha):
            np.testing.assert_array_equal(got, want)
    ones = np.ones(2, np.complex64)
    got = impl.index_add(np.zeros(1, np.complex64), 0, np.zeros(2, int), ones, alpha=1 + 2j)
    assert got.tolist() == [2 + 4j]


@complete
def test_zeros_infinities_and_nans(lowering):
    inf, nan = np.inf, np.nan
    initial = np.array([-0.0, -0.0, -0.0, 0.0, nan, 1.0, inf, 0.0, 0.0, inf], np.float32)
    index = np.array([1, 2, 2, 3, 5, 6, 7, 8, 8, 9])
    source = [0.0, -0.0, -0.0, -0.0, inf, 1.0, -inf, 3e38, 3e38, -inf]
    got = np.asarray(jax.jit(add)(initial, index, np.array(source, np.float32)))
    assert np.signbit(got[:4]).tolist() == [True, False, True, False], lowering
    assert got[5:9].tolist() == [inf, inf, -inf, inf]
    assert np.isnan(got[[4, 9]]).all()


@complete
def test_runs_repeat_in_an_order_of_their_own_and_an_exact_sum_has_none():
    arrays = contributions(5, 3072, 3)
    backwards = arrays[0], arrays[1][::-1], arrays[2][::-1]
    with impl.deterministic(False):
        off = bits(add(*arrays))
    assert bits(add(*arrays)) == off != bits(add(*backwards))
    with impl.deterministic(guarantee="portable"):
        exact = [bits(add(*each)) for each in (arrays, backwards)]
    assert exact == [bits(oracles.source(*arrays))] * 2
    assert exact[0] != off


@pytest.mark.usefixtures("portable")
def test_alpha_rounds_the_product_and_then_adds():
    factor = np.float32(0.3)
    for dtype in (np.float32, jnp.bfloat16):
        initial, index, source = contributions(3, 1025, 1, dtype)
        scaled = (source.astype(np.float32) * factor).astype(dtype)
        got = jax.jit(lambda x, i, s, a: impl.index_add(x, 0, i, s, alpha=a))
        want = oracles.source(initial, index, scaled)
        assert_same_bits(got(initial, index, source, factor), want, dtype.__name__)


@pytest.mark.usefixtures("portable")
def test_nested_and_empty_batches():
    rng = np.random.default_rng(0)
    x, index, source = spread(rng, (4, 3)), rng.integers(0, 3, (4, 40)), spread(rng, (4, 40))
    got = jax.jit(jax.vmap(jax.vmap(add, (None, 0, 0)), (0, None, None)))(x, index, source)
    for i, j in np.ndindex(4, 4):
        assert_same_bits(got[i, j], oracles.source(x[i], index[j], source[j]))
    assert jax.vmap(add)(x[:0], index[:0], source[:0]).shape == (0, 3)


@complete
def test_the_derivative_by_alpha():
    initial, index, source = contributions(3, 5, 3)
    gradient = jax.grad(lambda a: impl.index_add(initial, 0, index, source, alpha=a).sum())(2.0)
    np.testing.assert_allclose(gradient, source.sum(), rtol=1e-4)


@complete
def test_a_nan_that_is_written_has_the_derivative_of_a_number():
    gradient = jax.grad(
        lambda number: impl.index_fill(jnp.ones(3), 0, np.array([0, 2]), number).sum()
    )
    assert gradient(jnp.nan) == gradient(2.0) == 2


def test_one_program_serves_for_every_seed():
    x, index, source = contributions(3, 512, 1)
    seed, traces = impl.testing.Seed(), []

    @jax.jit
    def run(source):
        traces.append(None)
        return add(x, index, source)

    # The atomic path depends on the schedule; the ordered path does not.
    for mode, several in ((False, True), (True, False)):
        traces.clear()
        results = set()
        with impl.deterministic(mode, profile="complete"), impl.testing.schedule(seed):
            for seed.value in range(8):
                results.add(bits(run(source)))
        assert len(traces) == 1
        assert (len(results) > 1) == several

    def outcome(schedule):
        with impl.deterministic(False), schedule:
            return bits(run(source))

    def read(value):
        seed.value = value
        return outcome(impl.testing.schedule(seed))

    # A number has the same meaning in both forms, and 0 keeps the order of the program ids.
    assert read(0) == outcome(impl.testing.emulate("cuda")) == outcome(impl.testing.schedule(0))
    assert read(3) == outcome(impl.testing.schedule(3)) != read(0)


# Other reductions.


@complete
def test_bools_and_complex_numbers_of_which_pytorch_has_few():
    index, some = np.array([0, 0, 1, 1]), np.array([True, False, True, True])
    for reduce, want in (("amax", [True, True]), ("amin", [False, True])):
        got = impl.index_reduce(some[:2], 0, index, some, reduce, include_self=False)
        assert got.tolist() == want
    numbers = np.array([1 + 2j, 3, 2j, 4], np.complex64)
    got = impl.index_reduce(numbers[:2], 0, index, numbers, "mean", include_self=False)
    assert got.tolist() == [2 + 1j, 2 + 1j]
    with pytest.raises(NotImplementedError, match="complex64"):
        impl.index_reduce(numbers[:2], 0, index, numbers, "amax")


@complete
def test_means_of_integers_are_rounded_down_and_do_not_wrap_around():
    def mean(values, index, size, include_self):
        return impl.index_reduce(
            np.full(size, values[0]), 0, index, values, "mean", include_self=include_self
        )

    pairs = np.array([-3, -4, 7, 0, -1, 0], np.int32)
    assert mean(pairs, np.array([0, 0, 1, 1, 2, 2]), 3, include_self=False).tolist() == [-4, 3, -1]
    # PyTorch's sum of narrow integers wraps around before it is divided.
    for number, dtype in ((100, np.int8), (200, np.uint8)):
        many = np.full(300, number, dtype)
        assert mean(many, np.zeros(300, int), 1, include_self=True).tolist() == [number]
    large = np.full(1, 2**32 - 3, np.uint32)
    assert mean(large, np.zeros(1, int), 1, include_self=False).tolist() == large.tolist()


RNG = np.random.default_rng(0)
MANY = RNG.integers(0, 4, 2100)
SOURCE = (1 + RNG.standard_normal(2100) / 16).astype(np.float32)
#: No index is 4.
FIVE = np.array([0.3, -0.0, 1e30, -0.0, np.nan], np.float32)


@pytest.mark.usefixtures("portable")
def test_a_division_by_a_known_count_is_exact():
    mean = functools.partial(lambda x, s: impl.index_reduce(x, 0, MANY, s, "mean"))
    arrays = {d.__name__: (FIVE.astype(d), SOURCE.astype(d)) for d in (np.float32, jnp.bfloat16)}
    results = run_together({name: (mean, *pair) for name, pair in arrays.items()})
    terms = (np.bincount(MANY, minlength=5) + 1).astype(np.float32)
    for name, got in results.items():
        initial, source = (array.astype(np.float32) for array in arrays[name])
        total = oracles.source(initial, MANY, source)
        want = np.where(terms > 1, total / terms, initial)
        assert_same_bits(got, want.astype(got.dtype), name)
        # A multiplication by the reciprocal would show.
        product = np.where(terms > 1, total * (np.float32(1) / terms), initial)
        assert bits(want) != bits(product)


@complete
def test_a_mean_does_not_touch_elements_without_updates():
    # Not even a subnormal, which a division by 1 may flush to zero.
    tiny = np.array([1e-40, 1], np.float32)
    for include_self in (True, False):
        got = impl.index_reduce(tiny, 0, np.array([1]), tiny[1:], "mean", include_self=include_self)
        assert_same_bits(got, tiny)


@complete
@pytest.mark.usefixtures("lowering")
def test_extremes_of_zeros_are_ordered_by_sign():
    zeros = np.array([-0.0, 0.0], np.float32)
    index = np.zeros(2, int)

    @jax.jit
    def calls(x, s):
        return [
            impl.index_reduce(x, 0, index, s, reduce, include_self=include_self)
            for reduce in ("amin", "amax")
            for include_self in (True, False)
        ]

    for source in (zeros, zeros[::-1].copy()):
        signs = np.signbit(calls(zeros[:1], source)).ravel().tolist()
        assert signs == [True, True, False, False]


@complete
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_an_infinity_that_is_not_in_the_input_has_no_share(reduce):
    infinity = -np.inf if reduce == "amax" else np.inf
    index, source = np.array([0, 0, 1]), np.array([infinity, infinity, 1], np.float32)

    def loss(x, s, include_self):
        return impl.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)[0]

    gradients = jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)
    x = np.full(2, infinity, np.float32)
    assert [g.tolist() for g in gradients(x, source, False)] == [[0, 0], [0.5, 0.5, 0]]
    third = float(np.float32(1) / np.float32(3))
    assert [g.tolist() for g in gradients(x, source, True)] == [[third, 0], [third, third, 0]]
