"""The native engine over eight devices has the bits of one device; ``test_units`` runs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import impl

MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
#: The axes of the mesh that cut the rows, the terms and the columns of a product.
CUTS = [
    ("x", None, None),
    (None, "x", None),
    (None, ("x", "y"), None),
    (("x", "y"), None, None),
    (None, None, ("x", "y")),
    ("y", None, "x"),
    ("x", "y", None),
    ("y", "x", None),
    (None, "x", "y"),
    (None, "y", "x"),
]


@pytest.fixture(autouse=True)
def portable():
    # XLA partitions in threads of its own, which see the mode of the process.
    impl.use_deterministic_algorithms(True, guarantee="portable")
    yield
    impl.use_deterministic_algorithms(False)


def rough(rng, *shape):
    """Returns numbers of many magnitudes, half of which cancel along the last axis."""
    x = rng.normal(size=shape) * 2.0 ** rng.integers(-12, 13, shape)
    half = shape[-1] // 2
    x[..., :half] = -x[..., half : 2 * half]
    return np.asarray(x, np.float32)


def compiled(function, *arrays, specs=None):
    """Returns a result, and the text of the program, of arrays that are cut."""
    if specs is not None:
        cuts = [NamedSharding(MESH, P(*spec)) for spec in specs]
        arrays = [jax.device_put(*pair) for pair in zip(arrays, cuts, strict=True)]
    program = jax.jit(function).lower(*arrays).compile()
    return np.asarray(program(*arrays)), program.as_text()


def assert_bits(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    assert one.tobytes() == other.tobytes()


def check(function, arrays, cuts, call):
    """Compares a result of whole arrays with the results of arrays that are cut, by a call each.

    Returns:
        The result, and the texts of the programs.
    """
    whole, _ = compiled(function, *arrays)
    texts = []
    for specs in cuts:
        cut, text = compiled(function, *arrays, specs=specs)
        assert_bits(whole, cut)
        assert call in text, specs
        texts.append(text)
    return whole, texts


def test_products():
    rng = np.random.default_rng(0)
    cuts = [((m, k), (k, n)) for m, k, n in CUTS]
    _, texts = check(
        jnp.matmul, (rough(rng, 16, 24), rough(rng, 8, 24).T), cuts, "samebits_product"
    )
    has_bounds = ["samebits_product_bounds" in text for text in texts]
    assert has_bounds == [k is not None for _, k, _ in CUTS]


def test_products_in_doubt_beyond_one_list():
    # Each sum is 2**-60 above a tie, which no approximation decides.
    rng = np.random.default_rng(1)
    a = np.zeros((64, 16), np.float32)
    a[:, 0], a[:, 5], a[:, 11] = 1 + rng.integers(0, 2**10, 64) * 2.0**-20, 2.0**-24, 2.0**-60
    b = np.ones((16, 32), np.float32)
    cut = (None, ("x", "y")), (("x", "y"), None)
    whole, _ = check(jnp.matmul, (a, b), [cut], "samebits_product_bounds")
    assert np.array_equal(whole[:, 0], np.nextafter(a[:, 0], np.float32(2), dtype=np.float32))


@pytest.mark.parametrize(
    ("axes", "specs"),
    [
        ((0,), ("x", "y", None)),
        ((1,), ("x", "y", None)),
        ((0, 2), (None, "y", "x")),
        ((0, 1, 2), (("x", "y"), None, None)),
    ],
)
def test_sums(axes, specs):
    x = rough(np.random.default_rng(3), 8, 16, 12)
    check(lambda x: jnp.sum(x, axes), (x,), [(specs,)], "samebits_reduce")


def test_axes_that_devices_share_unevenly():
    a, b = rough(np.random.default_rng(4), 6, 13), rough(np.random.default_rng(5), 10, 13).T

    def function(a, b):
        a = lax.with_sharding_constraint(a, NamedSharding(MESH, P(None, "x")))
        b = lax.with_sharding_constraint(b, NamedSharding(MESH, P("x", "y")))
        # The padding of a tile does not stay zero.
        return jnp.matmul(jnp.exp(a * 0) * a, b), jnp.sum(jnp.exp(a * 0), 1)

    whole = jax.jit(lambda a, b: (jnp.matmul(a, b), jnp.sum(jnp.ones_like(a), 1)))(a, b)
    cut = jax.jit(function)(a, b)
    for one, other in zip(whole, cut, strict=True):
        assert_bits(np.asarray(one), np.asarray(other))


def test_convolutions_and_their_gradients():
    rng = np.random.default_rng(6)
    image, kernel = rough(rng, 8, 12, 9, 4), rough(rng, 3, 3, 4, 8)

    def loss(image, kernel):
        dimensions = ("NHWC", "HWIO", "NHWC")
        out = lax.conv_general_dilated(image, kernel, (2, 1), "SAME", dimension_numbers=dimensions)
        return (out * jnp.cos(jnp.arange(8.0))).sum()

    for position in (0, 1):
        cuts = ((("x",), ()), (("x",), (None, None, None, "y")), ((None, "x"), ()))
        check(jax.grad(loss, position), (image, kernel), cuts, "samebits_product")


@pytest.mark.parametrize("size", [5, 1000])
def test_sums_of_the_arrays_of_devices(size):
    x = rough(np.random.default_rng(10), size, 8).T.copy()
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    groups = [[0, 3, 5, 6], [1, 2, 4, 7]]

    def over(function, out):
        mapped = jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=out, check_vma=False)
        return jax.jit(mapped)(x)

    whole = jax.jit(lambda x: x.sum(0))(x)
    assert_bits(np.asarray(over(lambda x: lax.psum(x[0], "d"), P())), np.asarray(whole))
    of_groups = over(lambda x: lax.psum(x, "d", axis_index_groups=groups), P("d"))
    for group in groups:
        expected = np.asarray(jax.jit(lambda x: x.sum(0))(x[np.array(group)]))
        for device in group:
            assert_bits(np.asarray(of_groups)[device], expected)
    tiles = np.resize(x, (8, 16, 3))

    def scattered(x):
        part = lax.psum_scatter(x[0], "d", scatter_dimension=0, tiled=True)
        rows = x[0].reshape(8, 2, 3).swapaxes(0, 1)
        return part, lax.psum_scatter(rows, "d", scatter_dimension=1)

    x = tiles
    one, other = over(scattered, (P("d"), P(None, "d")))
    whole = np.asarray(jax.jit(lambda x: x.sum(0))(x))
    assert_bits(np.asarray(one), whole)
    assert_bits(np.asarray(other).reshape(2, 8, 3).swapaxes(0, 1).reshape(16, 3), whole)


@pytest.mark.parametrize("width", [1, 3])
def test_scatters(width):
    rng = np.random.default_rng(11)
    table, rows = rough(rng, 10, 2 * width)[:, :width], rough(rng, 64, 2 * width)[:, :width]
    at = rng.integers(0, 12, 64)

    def function(table, at, rows):
        return table.at[at].add(rows, mode="drop")

    both = (("x", "y"),)
    cuts = ((), ("x",), ("x",)), ((), both, both), (("y",), (), ("x",))
    check(function, (table, at, rows), cuts, "samebits_scatter")


def test_the_operand_of_a_scatter_is_a_term_of_each_device_of_a_shard_map():
    rng = np.random.default_rng(12)
    table, rows, at = rough(rng, 10, 6), rough(rng, 64, 6), rng.integers(0, 10, 64)
    cut = jax.shard_map(
        lambda table, at, rows: lax.psum(table.at[at].add(rows), ("x", "y")),
        mesh=MESH,
        in_specs=(P(), P(("x", "y")), P(("x", "y"))),
        out_specs=P(),
    )
    # A sum of eight equal floats is exact.
    whole = jax.jit(lambda table, at, rows: (8 * table).at[at].add(rows))(table, at, rows)
    one, text = compiled(cut, table, at, rows)
    assert_bits(np.asarray(whole), one)
    assert "samebits_scatter_bounds" in text


def test_a_shard_map_over_some_axes():
    rng = np.random.default_rng(8)
    x, w = rough(rng, 16, 12), rough(rng, 12, 8)
    cut = jax.shard_map(
        lambda x, w: x @ w, mesh=MESH, in_specs=(P("y"), P()), out_specs=P("y"), axis_names={"y"}
    )
    whole, _ = compiled(jnp.matmul, x, w)
    one, _ = compiled(cut, x, w, specs=((None, "x"), ("x",)))
    assert_bits(whole, one)


def parts(x, y):
    """Returns a gradient that has three parts, which are one sum."""
    return jax.grad(lambda x: (jnp.sin(x) * jnp.cos(x) * jnp.exp(x) * y).sum())(x)


def pooled(x, y):
    pool = (lax.add, (1, 1, 3), (1, 1, 2), "VALID")
    return jax.grad(lambda x: (lax.reduce_window(x[None], 0.0, *pool) * y[0, 0]).sum())(x)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (parts, "samebits_parts"),
        (lambda x, y: jnp.cumsum(x * y, 1), "samebits_running"),
        (lambda x, y: jnp.cumsum(x * y, 0), "samebits_running"),
        (pooled, "samebits_"),
        (
            lambda x, y: lax.reduce_window(x * y, -np.inf, lax.max, (1, 3), (1, 2), "SAME"),
            "samebits_pool",
        ),
        (lambda x, y: lax.pow(jnp.abs(x), y), "samebits_function"),
    ],
)
def test_operations_without_a_sum_over_devices(function, call):
    rng = np.random.default_rng(9)
    x, y = rough(rng, 16, 24), rough(rng, 16, 24)
    check(function, (x, y), [[cut] * 2 for cut in ((("x", "y"), None), ("x", "y"))], call)
