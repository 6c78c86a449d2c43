"""Sums and products on 1, 2, 4 and 8 devices; ``impl/tests/portable/test_engines`` runs it."""

import functools
import re

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl._exact.running import cumprod
from impl._exact.sums import reduction, scatter, windows
from impl.tests.exact import _products
from impl.tests.exact._products import MATRICES
from impl.tests.exact._sums import assert_same, rough
from impl.tests.exact._terms import hard_matrix
from spec import oracles

ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
CUT = P("d")


def mesh_of(count):
    return Mesh(np.array(jax.devices()[:count]), ("d",))


def over(count, function, *arrays, out, specs=CUT, check=True):
    """Returns the results of a ``shard_map`` of a function over some devices."""
    mapped = jax.shard_map(
        function, mesh=mesh_of(count), in_specs=specs, out_specs=out, check_vma=check
    )
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(mapped)(*arrays))


@functools.cache
def inputs():
    rng = np.random.default_rng(1)
    index = rng.integers(-1, 9, (64, 1)).astype(np.int32)
    return rough(rng, (64, 8)), index, rough(rng, (8, 8))


def cheap(x, index, operand):
    return {
        "sum": reduction.reduce_sum(x, (0,)),
        "sum of all": reduction.reduce_sum(x, (0, 1)),
        "scatter": scatter.scatter_add(operand, index, x, dimension_numbers=ROWS, mode="drop"),
    }


def program(x, index, operand):
    image = lax.reshape(x, (16, 32))
    size = {"window_dimensions": (3, 2), "window_strides": (2, 1), "padding": ((1, 1), (0, 0))}
    plain = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    pooled = windows.reduce_window_sum(image, **size, **plain)
    return {
        **cheap(x, index, operand),
        "running": reduction.cumsum(image, 0),
        "windows": pooled,
        "pool": windows.select_and_scatter_add(pooled, image, select_prim=lax.ge_p, **size),
        "product": cumprod.reduce_prod(image, (0,)),
    }


@functools.cache
def of_one_device():
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(program)(*inputs()))


def test_the_program_of_one_device_has_the_bits_of_the_oracles():
    x, index, operand = inputs()
    got = of_one_device()
    assert_same(got["sum"], oracles.nearest(x))
    assert_same(got["scatter"], oracles.nearest_scatter(operand, index[:, 0], x))
    assert_same(got["running"], oracles.nearest_running(x.reshape(16, 32)))


@pytest.mark.parametrize(
    ("count", "spec", "function"),
    [(8, P("d"), program), (4, P(None, "d"), cheap)],
    ids=["8 rows", "4 columns"],
)
def test_sharding_changes_no_bit(count, spec, function):
    x, index, operand = inputs()
    mesh = mesh_of(count)
    sharded = [
        jax.device_put(x, NamedSharding(mesh, spec)),
        jax.device_put(index, NamedSharding(mesh, P(*spec[:1]))),
        jax.device_put(operand, NamedSharding(mesh, P(None, *spec[1:]))),
    ]
    with arithmetic.wide():
        got = jax.jit(function)(*sharded)
    for label, value in got.items():
        assert_same(value, of_one_device()[label], label)


def named(x):
    return (
        reduction.reduce_sum(x, (0,), axis_names=("d",)),
        reduction.reduce_scatter(x[:8], "d", scatter_dimension=0, tiled=True),
        reduction.reduce_sum(x[:8], (), axis_names=("d",)),
    )


@pytest.mark.parametrize(("count", "check"), [(1, True), (2, False), (8, True)])
def test_sums_over_named_axes(count, check):
    x, _, _ = inputs()
    whole, parts, total = over(count, named, x, out=(P(), P("d"), P()), check=check)
    assert_same(whole, oracles.nearest(x))
    want = oracles.nearest(x.reshape(count, -1, 8)[:, :8])
    assert_same(total, want)
    assert_same(parts, want)


@pytest.mark.parametrize("count", [2, 8])
def test_hard_terms_over_named_axes(count):
    x = hard_matrix(np.random.default_rng(3), 64)
    x[3, 0] = np.nan
    got = over(count, lambda x: reduction.reduce_sum(x, (0,), axis_names=("d",)), x, out=P())
    assert_same(got, oracles.nearest(x))


def test_groups_of_a_named_axis():
    x, _, _ = inputs()
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    names = {"axis_names": ("d",), "axis_index_groups": groups}
    got = over(8, lambda x: reduction.reduce_sum(x, (), **names), x, out=P("d"), check=False)
    halves = x.reshape(2, 4, 8, 8)
    want = np.concatenate([np.tile(oracles.nearest(half), (4, 1)) for half in halves])
    assert_same(got, want)


def test_a_scatter_in_a_shard_map_adds_its_own_part():
    x, index, operand = inputs()

    def local(x, index, operand):
        return scatter.scatter_add(operand, index, x, dimension_numbers=ROWS, mode="drop")

    specs = P("d"), P("d"), P()
    got = over(8, local, x, index, operand, specs=specs, out=P("d")).reshape(8, 8, 8)
    for part in range(8):
        values, rows = x[8 * part :][:8], index[8 * part :][:8, 0]
        assert_same(got[part], oracles.nearest_scatter(operand, rows, values))


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_a_long_axis_that_devices_share_take_no_long_windows(reverse):
    x = rough(np.random.default_rng(2), (2496, 2))
    x[:3], x[1100, 0], x[1700, 1] = -0.0, np.inf, -np.inf
    sums = functools.partial(lax.cumsum, axis=0, reverse=reverse)
    rows = NamedSharding(mesh_of(8), P("d"))
    with impl.deterministic(guarantee="portable"), impl.testing.engine("float64"):
        shared = jax.jit(lambda x: sums(lax.with_sharding_constraint(x, rows)), out_shardings=rows)
        compiled = shared.lower(x).compile()
        assert_same(np.asarray(compiled(x)), np.asarray(jax.jit(sums)(x)))
    # XLA's windows are as long as the axis otherwise, for each of its elements.
    windows = re.findall(r"reduce-window\(.*window={size=([0-9x]+)", compiled.as_text())
    assert max(int(size) for window in windows for size in window.split("x")) < 256


CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")


def products(lhs, rhs, images, kernel, hard):
    """Returns products of many and of hard terms, and a convolution with its gradient."""
    numbers = lax.conv_dimension_numbers(images.shape, kernel.shape, CHANNELS_LAST)
    gradient = lax.conv_dimension_numbers(images.shape, images.shape, ("CHWN", "IHWO", "HWNC"))
    return (
        dot_general.dot_general(lhs, rhs, dimension_numbers=MATRICES),
        dot_general.dot_general(hard.T, hard, dimension_numbers=MATRICES),
        convolution.conv_general_dilated(images, kernel, dimension_numbers=numbers, **WINDOW),
        convolution.conv_general_dilated(images, images, dimension_numbers=gradient, **WINDOW),
    )


WINDOW = {"window_strides": (1, 1), "padding": ((1, 1), (1, 1))}


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(0)
    shapes = ((8, 8200), (8200, 8), (8, 5, 4, 8), (3, 3, 8, 16))
    return [*(_products.rough(rng, shape) for shape in shapes), hard_matrix(rng, 64)]


@pytest.fixture(scope="module")
def expected(operands):
    with arithmetic.wide():
        results = [np.asarray(result) for result in jax.jit(products)(*operands)]
    lhs, rhs, *_, hard = operands
    assert_same(results[0], oracles.nearest_product(lhs, rhs, np.float32))
    assert_same(results[1], oracles.nearest_product(hard.T, hard, np.float32))
    return results


@pytest.mark.parametrize(
    ("devices", "specs"),
    [
        (2, (P("d"), P(), P("d"), P(), P("d"))),
        (4, (P(None, "d"), P("d"), P(None, None, None, "d"), P(None, None, "d"), P("d"))),
        (8, (P(), P(None, "d"), P("d"), P(), P())),
    ],
    ids=["batch", "contracted", "outputs"],
)
def test_the_bits_are_those_of_one_device(operands, expected, devices, specs):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    shardings = [NamedSharding(mesh, spec) for spec in specs]
    with arithmetic.wide():
        got = jax.jit(products, in_shardings=shardings)(*operands)
    for each, want in zip(got, expected, strict=True):
        assert_same(each, want)
