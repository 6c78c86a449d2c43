"""index_add, and the orders of sums with it: every scatter-accumulate of a sum is an index_add."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._scatters import SIZES, contributions
from impl.tests.support import references
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.numbers import small, spread
from impl.tests.support.programs import run_together
from spec import oracles

complete = pytest.mark.usefixtures("complete")


def add(x, i, s):
    return impl.index_add(x, 0, i, s)


# Values.


def reference(input, dim, index, source, alpha=1):
    return references.scattered(input, dim, index, alpha * source, "sum")


@complete
def test_integers_wrap_around():
    got = impl.index_add(np.array([100], np.int8), 0, np.zeros(2, int), np.full(2, 100, np.int8))
    assert got.tolist() == [44]


@complete
def test_alpha():
    index = np.array([2, 0, 2, 1])
    for dtype, alpha in [(np.int32, 3), (np.float16, 0.5), (np.float32, 2)]:
        input, source = small((3, 2), dtype, 0, 4), small((4, 2), dtype, 1, 4)
        want = reference(input, 0, index, source, alpha).astype(dtype)

        @jax.jit
        def calls(traced, input=input, source=source, alpha=alpha):
            forms = (alpha, np.asarray(alpha), jnp.asarray(alpha), traced)
            return [impl.index_add(input, 0, index, source, alpha=form) for form in forms]

        for got in calls(alpha):
            np.testing.assert_array_equal(got, want)
    ones = np.ones(2, np.complex64)
    got = impl.index_add(np.zeros(1, np.complex64), 0, np.zeros(2, int), ones, alpha=1 + 2j)
    assert got.tolist() == [2 + 4j]


# Bits: sums are exact under portable.


@pytest.mark.usefixtures("portable")
def test_bits():
    inputs = {f"{size}": contributions(*size) for size in SIZES}
    for dtype in (np.float16, jnp.bfloat16, np.complex64):
        inputs[dtype.__name__] = contributions(3, 1030, 2, dtype)
    # The sums of integers, which wrap around, are the same in every order.
    rng = np.random.default_rng(0)
    for dtype in (np.int8, np.uint32, np.int32):
        limits = np.iinfo(dtype)
        source = rng.integers(limits.min, limits.max, 1030, dtype, endpoint=True)
        inputs[dtype.__name__] = np.zeros(3, dtype), rng.integers(0, 3, 1030), source
    results = run_together({name: (add, *arrays) for name, arrays in inputs.items()})
    for name, got in results.items():
        assert_same_bits(got, oracles.source(*inputs[name]), name)


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


# Schedules.


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
