"""Two engines have the bits of one device on eight devices; ``native/test_units`` runs it."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl import testing
from impl.tests.exact._sums import assert_same, hard_matrix, rough
from spec import oracles

MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
LINE = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
BOTH = ("x", "y")
CUT = P("d")
#: The axes of the mesh that cut the rows, the terms and the columns of a product.
CUTS = [
    (None, BOTH, None),
    ("x", None, None),
    ("y", None, "x"),
    (BOTH, None, None),
    (None, None, BOTH),
    (None, "x", None),
    ("x", "y", None),
    ("y", "x", None),
    (None, "x", "y"),
    (None, "y", "x"),
]


ENGINES = [name for name in ("native", "float64") if name in testing.engines()]
#: Programs of this engine have no float64, and take ten times as long to compile.
INTEGERS = pytest.param("integers", marks=pytest.mark.once)


@pytest.fixture(autouse=True, params=ENGINES)
def engine(request):
    # XLA partitions in threads of its own, which see the mode of the process.
    impl.use_deterministic_algorithms(True, guarantee="portable")
    with testing.engine(request.param):
        yield request.param
    impl.use_deterministic_algorithms(False)


def cancelling(rng, *shape):
    """Returns numbers of many magnitudes, half of which cancel along the last axis."""
    x, half = rough(rng, shape, spread=12), shape[-1] // 2
    x[..., :half] = -x[..., half : 2 * half]
    return x


def loss(image, kernel):
    dimensions = ("NHWC", "HWIO", "NHWC")
    out = lax.conv_general_dilated(image, kernel, (2, 1), "SAME", dimension_numbers=dimensions)
    return (out * jnp.cos(jnp.arange(8.0))).sum()


def parts(x, y):
    """Returns a gradient that has three parts, which are one sum."""
    return jax.grad(lambda x: (jnp.sin(x) * jnp.cos(x) * jnp.exp(x) * y).sum())(x)


def pooled(x, y):
    pool = (lax.add, (1, 1, 3), (1, 1, 2), "VALID")
    return jax.grad(lambda x: (lax.reduce_window(x[None], 0.0, *pool) * y[0, 0]).sum())(x)


def most(x, y):
    pool = lax.reduce_window(x * y, -np.inf, lax.max, (1, 3), (1, 2), "SAME")
    return pool, jax.grad(lambda x: jnp.sum(most_of_two(x) * y[::2]))(x)


def most_of_two(x):
    return lax.reduce_window(x, -np.inf, lax.max, (3, 2), (2, 1), "SAME")


def scattered(table, at, rows):
    return table.at[at].add(rows, mode="drop")


ELEMENTS = [[cut] * 2 for cut in ((BOTH, None), BOTH)]
#: Functions of two arrays without a sum over devices, and the calls of the native engine.
OF_ELEMENTS = {
    "parts": (parts, "samebits_parts"),
    "rows": (lambda x, y: jnp.cumsum(x * y, 1), "samebits_running"),
    "columns": (lambda x, y: jnp.cumsum(x * y, 0), "samebits_running"),
    "products": (lambda x, y: jnp.prod(1 + x * y * 1e-3, 0), "samebits_"),
    "windows": (pooled, "samebits_"),
    "most": (most, "samebits_pool"),
    "powers": (lambda x, y: lax.pow(jnp.abs(x), y), "samebits_function"),
}
AXES = {
    (0,): ("x", "y", None),
    (1,): ("x", "y", None),
    (0, 2): (None, "y", "x"),
    (0, 1, 2): (BOTH, None, None),
}


def operations():
    """Returns by name a function, its arrays, their cuts, and the call of the native engine."""
    rng = np.random.default_rng(0)
    pair = cancelling(rng, 16, 24), cancelling(rng, 8, 24).T
    found = {"product": (jnp.matmul, pair, [((m, k), (k, n)) for m, k, n in CUTS], "product")}
    x, y, cube = (cancelling(rng, *shape) for shape in ((16, 24), (16, 24), (8, 16, 12)))
    for name, (function, call) in OF_ELEMENTS.items():
        found[name] = function, (x, y), ELEMENTS, call.removeprefix("samebits_")
    for axes, cut in AXES.items():
        function = functools.partial(jnp.sum, axis=axes)
        found[f"sum {axes}"] = function, (cube,), [(cut,)], "reduce"
    image, kernel = cancelling(rng, 8, 12, 9, 4), cancelling(rng, 3, 3, 4, 8)
    cuts = [(("x",), ()), ((), (None, None, None, "y")), ((None, "x"), ())]
    for position in (0, 1):
        function = jax.grad(loss, position)
        found[f"gradient {position}"] = function, (image, kernel), cuts, "product"
    for width in (1, 3):
        table, rows = (cancelling(rng, n, 2 * width)[:, :width] for n in (10, 64))
        arrays = table, rng.integers(0, 12, 64), rows
        cuts = [((), ("x",), ("x",)), ((), (BOTH,), (BOTH,)), (("y",), (), ("x",))]
        found[f"scatter {width}"] = scattered, arrays, cuts, "scatter"
    return found


@pytest.mark.parametrize("engine", [*ENGINES, INTEGERS], indirect=True)
def test_arrays_that_are_cut(engine):
    several = operations()
    if engine == "integers":
        several = {name: several[name] for name in ("product", "sum (0,)", "scatter 1")}
    # To compile an operation of XLA takes as long as to compile ten calls.
    number = len(CUTS) if engine == "native" else 1

    def placed(array, spec):
        return jax.device_put(array, NamedSharding(MESH, P(*spec)))

    cuts = {
        name: [[*map(placed, arrays, specs)] for specs in each[:number]]
        for name, (_, arrays, each, _) in several.items()
    }

    @jax.jit
    def program(cuts):
        return {name: [several[name][0](*x) for x in each] for name, each in cuts.items()}

    whole = program({name: [arrays] for name, (_, arrays, *_) in several.items()})
    x, y = several["product"][1]
    assert_same(whole["product"][0], oracles.nearest_product(x, y, np.float32))
    compiled = program.lower(cuts).compile()
    for name, results in compiled(cuts).items():
        for number, result in enumerate(results):
            for one, other in zip(*map(jax.tree.leaves, (result, whole[name][0])), strict=True):
                assert_same(one, other, f"{name}, cut {number}")
    if engine == "native":
        calls = re.findall(r'custom_call_target="samebits_(\w+)"', compiled.as_text())
        for name, (_, _, each, call) in several.items():
            assert sum(c.startswith(call) for c in calls) >= len(each), name
        # The terms of some products are cut, and the terms of all gradients of the kernel.
        assert calls.count("product_bounds") >= sum(k is not None for _, k, _ in CUTS)


def test_products_and_sums_of_float64_that_are_cut(engine):
    rng = np.random.default_rng(2)
    x, y = (np.float64(cancelling(rng, *shape)) * (1 + 2.0**-50) for shape in ((16, 24), (8, 24)))
    y = y.T
    x[3, 5], x[4, 0], y[4, 2] = np.inf, 2.0**-1000, 2.0**900
    want = oracles.nearest_product(x, y, np.float64)
    cuts = CUTS if engine == "native" else CUTS[-1:]
    with jax.enable_x64(True):
        pairs = [
            [jax.device_put(a, NamedSharding(MESH, P(*s))) for a, s in ((x, (m, k)), (y, (k, n)))]
            for m, k, n in cuts
        ]
        for result in jax.jit(lambda pairs: [jnp.matmul(*pair) for pair in pairs])(pairs):
            assert_same(result, want)
        for result in jax.jit(lambda pairs: [jnp.sum(x, 1) for x, _ in pairs])(pairs):
            assert_same(result, oracles.nearest(x.T))


def test_products_in_doubt_beyond_one_list():
    # Each sum is 2**-60 above a tie, which no approximation decides.
    rng = np.random.default_rng(1)
    a, b = np.zeros((64, 16), np.float32), np.ones((16, 32), np.float32)
    a[:, 0], a[:, 5], a[:, 11] = 1 + rng.integers(0, 2**10, 64) * 2.0**-20, 2.0**-24, 2.0**-60
    cut = (jax.device_put(x, NamedSharding(MESH, s)) for x, s in ((a, P(None, BOTH)), (b, P(BOTH))))
    above = np.nextafter(a[:, :1], np.float32(2), dtype=np.float32)
    assert_same(jax.jit(jnp.matmul)(*cut), np.tile(above, 32))


def test_axes_that_devices_share_unevenly():
    rng = np.random.default_rng(4)
    a, b = cancelling(rng, 6, 13), cancelling(rng, 10, 13).T

    def function(a, b):
        a = lax.with_sharding_constraint(a, NamedSharding(MESH, P(None, "x")))
        b = lax.with_sharding_constraint(b, NamedSharding(MESH, P("x", "y")))
        # The padding of a tile does not stay zero.
        return jnp.matmul(jnp.exp(a * 0) * a, b), jnp.sum(jnp.exp(a * 0), 1)

    product, ones = jax.jit(function)(a, b)
    assert_same(product, oracles.nearest_product(a, b, np.float32))
    assert_same(ones, np.full(6, 13, np.float32))


def test_tiles_beyond_the_end_of_an_axis():
    # XLA cuts the three columns into four tiles: the last one has no element, but adds ones.
    def loss(a, b):
        apart = (a[:, None, :3] - b[None, :, :3]) ** 2 + 1
        return jnp.sum(a * b) + jnp.sum(apart)

    rng = np.random.default_rng(5)
    arrays = rng.normal(size=(2, 16, 8)).astype(np.float32)
    program = jax.jit(jax.value_and_grad(loss, (0, 1)))
    mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    cut = [jax.device_put(array, NamedSharding(mesh, P(None, "x"))) for array in arrays]
    for one, other in zip(*map(jax.tree.leaves, (program(*arrays), program(*cut))), strict=True):
        assert_same(one, other)


def over(function, *arrays, out, check=False, specs=CUT):
    """Returns the results of a ``shard_map`` of a function over the devices of a line."""
    options = {"mesh": LINE, "in_specs": specs, "out_specs": out, "check_vma": check}
    return jax.tree.map(np.asarray, jax.jit(jax.shard_map(function, **options))(*arrays))


@pytest.mark.parametrize("engine", [*ENGINES, INTEGERS], indirect=True)
def test_sums_of_the_arrays_of_devices(engine):
    size = 1000 if engine == "native" else 5
    x = cancelling(np.random.default_rng(10), size, 8).T.copy()
    groups = [[0, 3, 5, 6], [1, 2, 4, 7]]
    tiles = np.resize(x, (8, 16, 3))

    def function(x, tiles):
        part = lax.psum_scatter(tiles[0], "d", scatter_dimension=0, tiled=True)
        rows = tiles[0].reshape(8, 2, 3).swapaxes(0, 1)
        of_groups = lax.psum(x, "d", axis_index_groups=groups)
        return (
            lax.psum(x[0], "d"),
            of_groups,
            part,
            lax.psum_scatter(rows, "d", scatter_dimension=1),
        )

    out = P(), P("d"), P("d"), P(None, "d")
    total, of_groups, part, rows = over(function, x, tiles, out=out)
    assert_same(total, oracles.nearest(x))
    for group in groups:
        assert_same(of_groups[group], np.tile(oracles.nearest(x[group]), (4, 1)))
    want = oracles.nearest(tiles)
    assert_same(part, want)
    assert_same(rows.reshape(2, 8, 3).swapaxes(0, 1).reshape(16, 3), want)


@pytest.mark.parametrize("check", [False, True])
def test_hard_terms_are_one_sum_of_all_devices(check):
    x = hard_matrix(np.random.default_rng(3), 64)
    x[3, 0] = np.nan
    got = over(lambda x: lax.psum(x.sum(0), "d"), x, out=P(), check=check)
    assert_same(got, oracles.nearest(x))


def test_the_operand_of_a_scatter_is_a_term_of_each_device_of_a_shard_map():
    rng = np.random.default_rng(12)
    table, rows, at = cancelling(rng, 10, 6), cancelling(rng, 64, 6), rng.integers(0, 10, 64)

    def add(table, at, rows):
        return lax.psum(table.at[at].add(rows), "d")

    got = over(add, table, at, rows, specs=(P(), CUT, CUT), out=P())
    # A sum of eight equal floats is exact.
    assert_same(got, oracles.nearest_scatter(8 * table, at, rows))


def test_a_shard_map_over_some_axes():
    rng = np.random.default_rng(8)
    x, w = cancelling(rng, 16, 12), cancelling(rng, 12, 8)
    specs = {"in_specs": (P("y"), P()), "out_specs": P("y"), "axis_names": {"y"}}
    cut = jax.jit(jax.shard_map(jnp.matmul, mesh=MESH, **specs))
    placed = (
        jax.device_put(a, NamedSharding(MESH, s)) for a, s in ((x, P(None, "x")), (w, P("x")))
    )
    assert_same(cut(*placed), oracles.nearest_product(x, w, np.float32))


@pytest.mark.parametrize("engine", ["float64"], indirect=True)
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_a_long_axis_that_devices_share_take_no_long_windows(reverse):
    x = rough(np.random.default_rng(2), (2496, 2))
    x[:3], x[1100, 0], x[1700, 1] = -0.0, np.inf, -np.inf
    sums = functools.partial(lax.cumsum, axis=0, reverse=reverse)
    rows = NamedSharding(LINE, P("d"))
    shared = jax.jit(lambda x: sums(lax.with_sharding_constraint(x, rows)), out_shardings=rows)
    compiled = shared.lower(x).compile()
    assert_same(compiled(x), jax.jit(sums)(x))
    # XLA's windows are as long as the axis otherwise, for each of its elements.
    windows = re.findall(r"reduce-window\(.*window={size=([0-9x]+)", compiled.as_text())
    assert max(int(size) for window in windows for size in window.split("x")) < 256


@pytest.mark.parametrize("engine", ENGINES[:1], indirect=True)
@pytest.mark.parametrize(
    "running",
    [
        lambda x: lax.cumprod(x, 1),
        lambda x: lax.cumlogsumexp(x, 1, reverse=True),
        lambda x: lax.reduce_prod(x, [1]),
    ],
)
def test_devices_exchange_the_elements_of_a_running_product_once(running):
    # XLA would exchange elements in each round, next to the exchanges of other operations. Devices
    # of a CPU with few threads then wait for each other without end.
    x = rough(np.random.default_rng(2), (3, 64), spread=2)
    shared = jax.device_put(x, NamedSharding(LINE, P(None, "d")))
    compiled = jax.jit(running).lower(shared).compile()
    assert_same(compiled(shared), jax.jit(running)(x))
    assert len(re.findall(r" (all-|collective-|reduce-sc)[a-z-]+\(", compiled.as_text())) == 1


@pytest.mark.skipif("native" not in ENGINES, reason="the library was not built")
@pytest.mark.parametrize("engine", ["native"], indirect=True)
def test_a_sum_of_two_calls_is_one_operation():
    x = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(MESH, P("x", "y")))
    text = jax.jit(lambda x: x.sum(0) + x.sum(1)).lower(x).as_text()
    assert "stablehlo.add" in text
    # XLA can know neither term, so nothing chooses the sign of a zero.
    assert "stablehlo.or" not in text
