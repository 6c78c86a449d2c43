"""Bits: the ordered path has those of the spec's oracle in every lowering, the atomic path not."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impl
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, bits, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")


@functools.cache
def case(destinations, count, width, dtype):
    """Contributions out of order, some destinations untouched, and -0 among the initial values."""
    rng = np.random.default_rng((destinations, count, width))
    # Half of them go to a few destinations, so that sums are long.
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
    (1025, 2049, 1),
    (1500, 4500, 2),
]


def check_index_add(destinations, count, width, dtype=np.float32):
    initial, index, source = case(destinations, count, width, dtype)
    got = impl.index_add(initial, 0, index, source)
    assert_same_bits(got, oracles.panel(initial, index, source))


@pytest.mark.parametrize(("destinations", "count", "width"), SIZES)
@pytest.mark.usefixtures("lowering")
def test_index_add(destinations, count, width):
    check_index_add(destinations, count, width)


@pytest.mark.parametrize("name", DISTINCT)
def test_index_add_over_several_panels(name):
    with LOWERINGS[name]():
        check_index_add(5, 3072, 3)


@pytest.mark.parametrize(
    "dtype", [np.float16, jnp.bfloat16, np.complex64], ids=lambda d: d.__name__
)
@pytest.mark.usefixtures("lowering")
def test_index_add_of_other_dtypes(dtype):
    check_index_add(3, 1030, 2, dtype)


@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_sums_of_integers_are_the_same_in_every_order(name):
    rng = np.random.default_rng(0)
    index = rng.integers(0, 3, 1030)
    for dtype in (np.int8, np.uint32, np.int32):
        limits = np.iinfo(dtype)
        source = rng.integers(limits.min, limits.max, 1030, dtype, endpoint=True)
        with LOWERINGS[name]():
            got = impl.index_add(np.zeros(3, dtype), 0, index, source)
        assert_same_bits(got, oracles.panel(np.zeros(3, dtype), index, source))


def test_the_panel_order_is_not_any_order():
    initial, index, source = case(5, 3072, 3, np.float32)
    want = bits(oracles.panel(initial, index, source))
    folded = initial.copy()
    np.add.at(folded, index, source)
    assert want != bits(folded)
    assert want != bits(oracles.panel(initial, index[::-1], source[::-1]))
    with impl.deterministic(False):
        assert want != bits(impl.index_add(initial, 0, index, source))


@pytest.mark.usefixtures("lowering")
def test_untouched_destinations_and_zeros_keep_their_sign():
    initial = np.array([-0.0, -0.0, -0.0, 0.0, np.nan], np.float32)
    index = np.array([1, 2, 2, 3])
    source = np.array([0.0, -0.0, -0.0, -0.0], np.float32)
    got = np.asarray(impl.index_add(initial, 0, index, source))
    assert_same_bits(got, oracles.panel(initial, index, source))
    assert np.signbit(got[:4]).tolist() == [True, False, True, False]


@pytest.mark.usefixtures("lowering")
def test_a_constant_initial_zero_is_added():
    # 0 + -0 is 0: a compiler that knows the 0 must not leave the sum at -0.
    index, weights = np.array([0, 0, 2]), np.full(3, -0.0, np.float32)
    got = jax.jit(lambda i, w: impl.bincount(i, w, length=3))(index, weights)
    assert_same_bits(got, np.zeros(3, np.float32))
    gradient = jax.jit(lambda w: jax.vjp(lambda x: impl.index_select(x, 0, index), w)[1](w)[0])
    assert_same_bits(gradient(weights), np.zeros(3, np.float32))


@pytest.mark.usefixtures("lowering")
def test_infinities_and_nans():
    initial = np.array([1.0, np.inf, 0.0, 0.0, np.inf], np.float32)
    index = np.array([0, 1, 2, 3, 3, 4])
    source = np.array([np.inf, 1.0, -np.inf, 3e38, 3e38, -np.inf], np.float32)
    got = impl.index_add(initial, 0, index, source)
    assert got[:4].tolist() == [np.inf, np.inf, -np.inf, np.inf]
    assert np.isnan(got[4])


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.usefixtures("lowering")
def test_scatter_add(dim):
    rng = np.random.default_rng(dim)
    shape = [2, 3, 2]
    initial = spread(rng, shape)
    shape[dim] = 1030
    source = spread(rng, shape)
    index = rng.integers(0, initial.shape[dim], shape)
    want = np.moveaxis(initial.copy(), dim, 0)
    for place in np.ndindex(want.shape[1:]):
        column = (slice(None), *place)
        moved = np.moveaxis(index, dim, 0)[column], np.moveaxis(source, dim, 0)[column]
        want[column] = oracles.panel(want[column], *moved)
    got = impl.scatter_add(initial, dim, index, source)
    assert_same_bits(got, np.moveaxis(want, 0, dim))


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_alpha_rounds_the_product_and_then_adds(name, dtype):
    initial, index, source = case(3, 1025, 1, dtype)
    factor = np.float32(0.3)
    scaled = (source.astype(np.float32) * factor).astype(dtype)
    want = oracles.panel(initial, index, scaled)
    with LOWERINGS[name]():
        jitted = jax.jit(lambda x, s, a: impl.index_add(x, 0, index, s, alpha=a))
        assert_same_bits(jitted(initial, source, factor), want)


def test_products_of_the_user_are_not_contracted_with_the_sums():
    # Outside the op: one multiplication and the ordered sum in one compiled program.
    initial, index, source = case(3, 300, 2, np.float32)
    weights = case(3, 300, 2, np.float32)[2][::-1].copy()
    want = oracles.panel(initial, index, source * weights)
    for name in ("native", "xla"):
        with LOWERINGS[name]():
            got = jax.jit(lambda x, s, w: impl.index_add(x, 0, index, s * w))(
                initial, source, weights
            )
        assert_same_bits(got, want)


@pytest.mark.usefixtures("lowering")
def test_bincount():
    _, index, source = case(5, 3072, 3, np.float32)
    weights = source[:, 0]
    got = impl.bincount(index, weights, 6)
    assert_same_bits(got, oracles.panel(np.zeros(6, np.float32), index, weights))


@pytest.mark.usefixtures("lowering")
def test_gradients_of_reads():
    initial, index, weight = case(5, 3072, 3, np.float32)
    gradient = jax.grad(lambda x: (impl.index_select(x, 0, index) * weight).sum())(initial)
    assert_same_bits(gradient, oracles.panel(np.zeros_like(initial), index, weight))


@pytest.mark.usefixtures("lowering")
def test_gradients_of_gather_in_float16():
    initial, index, weight = case(3, 1030, 2, np.float16)
    pullback = jax.vjp(lambda x: impl.gather(x, 1, index[None]), initial[:, :1].T)[1]
    want = oracles.panel(np.zeros_like(initial[:, :1]), index, weight[:, :1])
    assert_same_bits(pullback(jnp.asarray(weight[:, :1].T))[0], want.T)


def test_gradients_of_updates_are_reads():
    initial, index, source = case(5, 3072, 3, np.float32)
    weight = spread(np.random.default_rng(0), initial.shape)
    pullback = jax.vjp(lambda x, s: impl.index_add(x, 0, index, s), initial, source)[1]
    of_initial, of_source = pullback(jnp.asarray(weight))
    assert_same_bits(of_initial, weight)
    assert_same_bits(of_source, weight[index])


# Running sums.


@pytest.mark.parametrize("count", [1024, 1025, 3000])
@pytest.mark.usefixtures("lowering")
def test_cumsum(count):
    values = spread(np.random.default_rng(count), (2, count, 3))
    values[:, :2] = -0.0
    got = impl.cumsum(values, 1)
    assert_same_bits(got, np.moveaxis(oracles.blocked_scan(np.moveaxis(values, 1, 0)), 0, 1))


@pytest.mark.parametrize(
    "dtype", [np.float16, jnp.bfloat16, np.complex64], ids=lambda d: d.__name__
)
@pytest.mark.usefixtures("lowering")
def test_cumsum_of_other_dtypes(dtype):
    values = spread(np.random.default_rng(0), 1100, dtype)
    assert_same_bits(impl.cumsum(values, 0), oracles.blocked_scan(values))


@pytest.mark.usefixtures("lowering")
def test_gradients_of_cumsum():
    weight = spread(np.random.default_rng(0), (1030, 2))
    pullback = jax.vjp(lambda x: impl.cumsum(x, 0), np.zeros_like(weight))[1]
    got = pullback(jnp.asarray(weight))[0]
    assert_same_bits(got, oracles.blocked_scan(weight[::-1])[::-1])


def test_the_order_of_cumsum_is_not_numpys():
    values = spread(np.random.default_rng(0), 1100)
    want = oracles.blocked_scan(values)
    assert bits(want) != bits(np.cumsum(values))
    assert bits(want) != bits(jnp.cumsum(values))


# Selection.


@pytest.mark.parametrize("dtype", [np.float32, np.int8], ids=lambda d: d.__name__)
@pytest.mark.usefixtures("lowering")
def test_kthvalue(dtype):
    rng = np.random.default_rng(0)
    values = rng.integers(-3, 4, (2100, 2)).astype(dtype)
    if dtype is np.float32:
        values[::5] = -values[::5]  # -0 among the zeros
        values[1::50] = np.nan
        values[3::50] = -np.nan
    for k in (1050, 2100):
        got = impl.kthvalue(values, k, 0)
        indices = oracles.lowest_index(values, k)
        assert_same_bits(got.indices, indices.astype(np.int32))
        assert_same_bits(got.values, np.take_along_axis(values, indices[None], 0)[0])


# The atomic path under adversarial schedules.


def changes(function, seeds):
    """Whether some of the schedules give other bits than the first."""
    found = set()
    for seed in range(seeds):
        with impl.testing.schedule(seed):
            found.add(bits(function()))
        if len(found) > 1:
            return True
    return False


@pytest.mark.parametrize(("mode", "changing"), [(False, True), (True, False)])
def test_the_atomic_path_alone_depends_on_the_schedule(mode, changing):
    # Every row is tried under all schedules by the conformance suite.
    x, index, source = case(3, 512, 1, np.float32)
    with impl.deterministic(mode, profile="complete"):
        assert changes(lambda: impl.index_add(x, 0, index, source), seeds=8) == changing


def test_one_program_serves_for_every_seed():
    x, index, source = case(3, 512, 1, np.float32)
    seed, traces = impl.testing.Seed(), []

    @jax.jit
    def run(source):
        traces.append(None)
        return impl.index_add(x, 0, index, source)

    for mode, several in ((False, True), (True, False)):
        traces.clear()
        found = set()
        with impl.deterministic(mode, profile="complete"), impl.testing.schedule(seed):
            for seed.value in range(8):
                found.add(bits(run(source)))
        assert len(traces) == 1
        assert (len(found) > 1) == several

    def outcome(schedule):
        with impl.deterministic(False), schedule:
            return bits(run(source))

    def read(value):
        seed.value = value
        return outcome(impl.testing.schedule(seed))

    # A number means the same either way, and 0 keeps the order of the program ids.
    assert read(0) == outcome(impl.testing.emulate("cuda")) == outcome(impl.testing.schedule(0))
    assert read(3) == outcome(impl.testing.schedule(3)) != read(0)


def test_the_atomic_path_is_right_for_exact_numbers_under_any_schedule():
    rng = np.random.default_rng(0)
    index, source = rng.integers(0, 4, 700), rng.integers(-9, 9, 700).astype(np.float32)
    want = np.zeros(4, np.float32)
    np.add.at(want, index, source)
    steps = rng.integers(-9, 9, 2500).astype(np.float32)
    with impl.deterministic(False), impl.testing.schedule(3):
        assert_same_bits(impl.index_add(np.zeros(4, np.float32), 0, index, source), want)
        assert_same_bits(impl.cumsum(steps, 0), np.cumsum(steps))
        values = rng.permutation(1500).astype(np.float32)
        assert impl.kthvalue(values, 700).indices == np.argsort(values)[699]


# Any numbers at all.

normal = st.floats(
    min_value=-(2.0**60), max_value=2.0**60, width=32, allow_nan=False, allow_subnormal=False
).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    destinations=st.sampled_from([1, 2, 7]),
    count=st.sampled_from([5, 1500, 2100]),
    palette=st.lists(normal, min_size=1, max_size=20),
    seed=st.integers(0, 2**32 - 1),
    xla=st.booleans(),
)
def test_panel_order_of_any_numbers(destinations, count, palette, seed, xla):
    rng = np.random.default_rng(seed)
    # One index in four is out of range, and dropped.
    index = rng.integers(-1, destinations + destinations // 4 + 1, count)
    source = rng.choice(np.array(palette, np.float32), count)
    initial = rng.choice(np.array([*palette, -0.0], np.float32), destinations)
    emulated = impl.testing.emulate("cuda", lowering="xla") if xla else contextlib.nullcontext()
    with impl.deterministic(profile="complete"), emulated:
        got = ANY(initial, index.astype(np.int32), source)
    assert_same_bits(got, oracles.panel(initial, index, source))


ANY = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))
