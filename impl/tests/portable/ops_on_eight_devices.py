"""Ops and moves of elements on 1, 2, 4 and 8 devices; ``test_engines`` runs it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._core import axes
from impl._core.numerics import highest, lowest
from impl.nn import functional
from impl.tests.exact._sums import rough
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits

RNG = np.random.default_rng(4)
MATRIX = (1 + RNG.normal(size=(40, 16)) / 8).astype(np.float32)
SHORT = MATRIX[:16]
#: Several elements are equal, so that a selection has to choose among their positions.
TIES = np.round(RNG.normal(size=(16, 8)), 1).astype(np.float32)
IMAGE = rough(RNG, (8, 8, 16))
WEIGHTS = rough(RNG, (97,))
SCALE = np.float32(1.1)

#: Each function has a matrix, with ties for selections. Axis 0 is the axis of the op. The matrix of
#: scans is short, since XLA compiles each of their rounds.
SCANS = {
    "cumsum": lambda x: impl.cumsum(x, 0),
    "cumprod": lambda x: impl.cumprod(x, 0),
    "cummax": lambda x: impl.cummax(x, 0),
    "logcumsumexp": lambda x: impl.logcumsumexp(x, 0),
}
SELECTIONS = {
    "kthvalue": lambda x: impl.kthvalue(x, 5, 0),
    "median": lambda x: impl.median(x, 0),
    "mode": lambda x: impl.mode(x, 0),
    "topk": lambda x: impl.topk(x, 3, 0),
}
#: ``every_op/exact_on_eight_devices`` has the ops that add.
TWO_INDICES = RNG.integers(0, 7, (40, 16)).astype(np.int32)
TABLE = rough(RNG, (7, 16))
SCATTERS = {
    "amax": lambda x: impl.scatter_reduce(TABLE, 0, TWO_INDICES, x, "amax"),
    "index_copy": lambda x: impl.index_copy(x, 0, np.arange(40)[::-1] // 2, -0.0 * x),
}
#: Each has an image of channels, rows and columns. Windows overlap, and adaptive ones are unequal.
WINDOWS = {
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "max_pool2d": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "adaptive_avg_pool2d": lambda x: functional.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, (3, 5)),
    "interpolate": lambda x: functional.interpolate(x[None], (5, 23), mode="bilinear"),
}


def results_and_gradient(function, array, scale):
    """Returns all results of a function, and the gradient of those that are floats."""

    def split(array):
        leaves = jax.tree.leaves(function(array * scale))
        floats = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
        return floats, leaves

    floats, pullback, leaves = jax.vjp(split, array, has_aux=True)
    # The cotangents do not depend on the results, because XLA may contract a user's own sums
    # outside of `portable`.
    weights = [jnp.resize(WEIGHTS, leaf.shape) for leaf in floats]
    return *leaves, *pullback([weight * scale for weight in weights])


def program(matrix, short, ties, image, scale):
    arrays = ((SCANS, short), (SCATTERS, matrix), (SELECTIONS, ties), (WINDOWS, image))
    return {
        name: results_and_gradient(function, array, scale)
        for functions, array in arrays
        for name, function in functions.items()
    }


#: The axes of a matrix and of an image that are sharded: the axis of the op, or another one.
OWN, OTHER = (0, -1), (1, 0)


@functools.cache
def on(count, axes):
    """Returns the results of some devices, over which an axis of each array is cut."""
    mesh = Mesh(np.array(jax.devices()[:count]), ("d",))
    arrays = [
        jax.device_put(x, NamedSharding(mesh, P(*[None] * (axis % x.ndim), "d")))
        for x, axis in zip((MATRIX, SHORT, TIES, IMAGE), (*[axes[0]] * 3, axes[1]), strict=True)
    ]
    with impl.deterministic(profile="complete", guarantee="portable"):
        return jax.device_get(jax.jit(program)(*arrays, SCALE))


@pytest.mark.once
@pytest.mark.parametrize(("count", "axes"), [(8, OWN), (2, OTHER)])
def test_the_bits_are_those_of_one_device(count, axes):
    alone, shared = on(1, OWN), on(count, axes)
    for name in shared:
        for position, (result, wanted) in enumerate(zip(shared[name], alone[name], strict=True)):
            assert_same_bits(result, wanted, f"{name} [{position}]")


LINE = Mesh(np.array(jax.devices()), ("d",))
THREE_AXES = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))


def after(cut, function):
    """Returns a function of whole arrays, whose result is sharded."""

    def run(*arrays):
        whole = NamedSharding(cut.mesh, P())
        arrays = [jax.lax.with_sharding_constraint(each, whole) for each in arrays]
        return jax.lax.with_sharding_constraint(function(*arrays), cut)

    return jax.jit(run, out_shardings=NamedSharding(cut.mesh, P()))


@pytest.mark.parametrize("count", [3, 8])
def test_an_array_with_zeros_between_its_elements(count):
    # In plain JAX, XLA gives wrong values, or does not compile the program.
    x = jnp.arange(1.0, 17.0).reshape(2, 8)
    mesh = Mesh(np.array(jax.devices()[:count]), ("d",))
    function = functools.partial(axes.spread_with_zeros, padding=[(0, 0), (1, 0)], apart=[3, 2])
    for spec in (P("d"), P(None, "d")):
        found = after(NamedSharding(mesh, spec), function)(x)
        np.testing.assert_array_equal(found, jax.lax.pad(x, 0.0, [(0, 0, 2), (1, 0, 1)]))


@pytest.mark.parametrize("dtype", [np.int32, np.bool_])
def test_integers_with_others_between_them(dtype):
    x = np.arange(1, 9).astype(dtype)
    mesh = Mesh(np.array(jax.devices()[:3]), ("d",))

    def padded(x):
        return jax.lax.pad(x, np.zeros((), dtype), [(0, 0, 1)])

    with impl.deterministic(guarantee="portable"):
        found = after(NamedSharding(mesh, P("d")), padded)(x)
    np.testing.assert_array_equal(found, padded(x))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_gather_along_an_axis_that_shards_rows_for_its_reader(dtype):
    # In plain JAX, XLA gives wrong values.
    x = np.arange(128).reshape(16, 8).astype(dtype)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
    arrays = [jax.device_put(x, NamedSharding(mesh, cut)) for cut in (P(None, "a"), P("a", "b"))]
    columns = jnp.array([3, 0, 5, 5, 7])
    with impl.deterministic(guarantee="portable"):
        found = jax.jit(lambda x, y: jnp.pad(x.take(columns, 1), ((0, 0), (0, 3))) + y)(*arrays)
    np.testing.assert_array_equal(found, np.pad(x[:, columns], ((0, 0), (0, 3))) + x)


def test_zeros_keep_their_sign_where_half_of_the_devices_have_no_index():
    x, rows, cut = -np.zeros((4, 8), np.float32), np.zeros((4, 8), int), NamedSharding(LINE, P("d"))

    def taken(x, rows):
        return jnp.take_along_axis(x, jax.lax.with_sharding_constraint(rows, cut), 0)

    with impl.deterministic(guarantee="portable"):
        assert np.signbit(jax.jit(taken)(x, rows)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_scatters_into_unequal_parts(dtype):
    # In plain JAX before 0.12, XLA stores the update over the first element of each part.
    x, update = np.arange(1, 31).astype(dtype), np.full(1, 9, dtype)
    wanted = {"set": 9, "add": 14, "multiply": 45, "max": 9, "min": 5}

    @jax.jit
    def scattered(x, at):
        cut = jax.lax.with_sharding_constraint(x, NamedSharding(LINE, P("d")))
        return {how: getattr(cut.at[at], how)(update, mode="drop") for how in wanted}

    with impl.deterministic(guarantee="portable"):
        found = scattered(x, np.array([4]))
    for how, value in wanted.items():
        np.testing.assert_array_equal(found[how], np.where(np.arange(30) == 4, value, x), how)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_slices_of_slices_start_within_their_arrays(dtype):
    # In plain JAX before 0.12, XLA adds the starts of two slices: the second one here is 4 or 3.
    x = np.arange(8).astype(dtype)

    @jax.jit
    def parts(x, first, start):
        part = jax.lax.dynamic_slice(x, (first,), (4,))
        one = jax.lax.dynamic_slice(part, (start,), (1,))[0]
        updates = ("set", "add", "subtract", "multiply", "max", "min")
        kept = [getattr(part.at[start], how)(part[0] + 9, mode="drop") for how in updates]
        return one, part.at[start].get(mode="clip"), kept

    with impl.deterministic(guarantee="portable"):
        for first, start, whole in ((0, 7, x[:4]), (9, np.int8(4), x[4:])):
            one, clipped, kept = parts(x, first, start)
            assert one == clipped == whole[3]
            np.testing.assert_array_equal(kept, [whole] * 6)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_rows_that_move_to_the_next_device(dtype):
    # In plain JAX before 0.12, the last row of each device but one has the value of another row.
    x = np.arange(32).reshape(16, 2).astype(dtype)
    moved = jax.jit(lambda x: x.at[:-1].set(x[1:]).at[-1].set(-1))
    with impl.deterministic(guarantee="portable"):
        found = moved(jax.device_put(x, NamedSharding(LINE, P("d"))))
    np.testing.assert_array_equal(found, [*x[1:], [-1, -1]])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("length", "window", "stride", "padding"),
    [(4, 2, 4, (1, 0)), (4, 3, 3, (1, 0)), (8, 4, 2, (1, 0)), (8, 1, 3, (0, 0))],
)
def test_windows_that_are_few_have_their_values(length, window, stride, padding, dtype):
    x = np.arange(length, dtype=dtype)[::-1] - 3
    mesh = Mesh(np.array(jax.devices()[:length]), ("d",))
    shared = jax.device_put(x, NamedSharding(mesh, P("d")))

    def pooled(x):
        results = []
        for combine, start in ((jax.lax.min, 99), (jax.lax.max, -99), (jax.lax.add, 0)):
            first = np.array(start, dtype)
            if dtype == "float32" and start:
                first = np.array(np.sign(start) * np.inf, dtype)
            how = combine, (window,), (stride,), (padding,)
            results.append(jax.lax.reduce_window(x, first, *how))
        return results

    with impl.deterministic(guarantee="portable"):
        found = jax.jit(pooled)(shared)
    for got, wanted in zip(found, jax.jit(pooled)(x), strict=True):
        assert np.array_equal(got, wanted)


def strided(image, kernel):
    """Convolves twice, with gradients; the second image is shorter than the number of devices."""

    def twice(image, kernel):
        for _ in range(2):
            image = convolve(jnp.sin(image), kernel, strides=(2,))
        return image

    result, pullback = jax.vjp(twice, image, kernel)
    return result, *pullback(result * SCALE)


def convolve(image, kernel, strides=(1,), groups=1):
    numbers, options = ("NWC", "WIO", "NWC"), {"feature_group_count": groups}
    return jax.lax.conv_general_dilated(
        image, kernel, strides, "SAME", dimension_numbers=numbers, **options
    )


def dilated(image, kernel):
    return jax.lax.conv_general_dilated(image, kernel, (2,), [(0, 1)], lhs_dilation=(2,))


def bordered(x):
    """Pads one array with several numbers; XLA of JAX before 0.12 takes one border for all."""
    padded = [jax.lax.pad(x, jnp.asarray(fill, x.dtype), [(1, 1, 0)]) * 2 for fill in (0, 3, -5)]
    extremes = [
        jax.lax.reduce_window(x, unit(x.dtype), reduction, (3,), (1,), "SAME")
        for unit, reduction in ((lowest, jax.lax.max), (highest, jax.lax.min))
    ]
    return *padded, *extremes


def product(a, b):
    return SCALE * jnp.dot(a * SCALE, b)


def turned(first, second, matrix, *cuts):
    """With jax 0.12, XLA passed the last product an array in another layout than it read."""
    x = jnp.einsum("abi,ij->abj", first, matrix) - second
    for cut in cuts:
        x = jax.lax.with_sharding_constraint(x, NamedSharding(THREE_AXES, cut))
    return jnp.einsum("abi,abj->ij", x, second).T


def transformed(matrix):
    return jnp.fft.fft(matrix * SCALE).T, jnp.fft.fft2(matrix)


def triangle(matrix):
    signs = jnp.sign(matrix)
    return jnp.linalg.cholesky(signs @ signs.T + 8 * jnp.eye(8)), matrix


def rotated(matrix):
    left, values, right = jnp.linalg.svd(matrix * SCALE)
    return left * values, right


def reflected(matrix):
    return tuple(jnp.linalg.qr(matrix))


def greatest(x):
    return jax.lax.top_k(x, 10)


MOVES = {
    "lookup": lambda x: x[jnp.array([3, 1, 99])],
    "fills": lambda x: jnp.take(x, jnp.array([2, -40]), axis=0, mode="fill"),
    "row": lambda x: x[5],
    "slice": lambda x: x[1:14:4],
    "split": lambda x: jnp.split(x, [4, 9]),
    "window": lambda x: jax.lax.dynamic_slice(x, (jnp.int32(3), 0), (3, x.shape[1])),
    "update": lambda x: jax.lax.dynamic_update_slice(x, x[:3], (4, 0)),
    "join": lambda x: jnp.concatenate([x, x[:3]]),
    "border": lambda x: jax.lax.pad(x, jnp.asarray(-0.0, x.dtype), [(0, 8, 0), (0, 0, 0)]),
}


def moved(x):
    return {name: move(x) for name, move in MOVES.items()}


def constrained(x):
    cut = jax.lax.with_sharding_constraint(-x, NamedSharding(LINE, P("d")))
    return jax.lax.with_sharding_constraint(cut, NamedSharding(LINE, P()))


def pooled(x):
    """Has fewer windows than devices; the gradient divides windows and elements among devices."""
    pool, pullback = jax.vjp(
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2,), (2,), "VALID"), x
    )
    return pool, *pullback(pool * SCALE)


def zeros(dtype):
    return jnp.asarray(np.where(rough(RNG, (16, 8)) > 0, -0.0, 1.0), dtype)


#: Float64 does not decide the rounding of the last element, so its terms are gathered again.
TAPS = np.array([1, 2.0**-12, 2.0**-26, *[2.0**-26.5] * 5], np.float32).reshape(1, 1, 8)
MATRICES = rough(RNG, (8, 8)), rough(RNG, (8, 8))
CUBES = rough(RNG, (8, 16, 8)), rough(RNG, (8, 16, 8)), MATRICES[0]
#: On one device, XLA joins the groups to one kernel if a group has one feature.
NOT_FINITE = rough(RNG, (8, 8, 6))
NOT_FINITE[1, 3, 0], NOT_FINITE[5, 2, 1] = np.nan, np.inf
#: The shardings of two operands and of the result, for which XLA gives wrong values in plain JAX.
PRODUCTS: list[Any] = [
    (P(None, "a"), P("c", None), P(("b", "a"), "c")),
    (P(None, "b"), P("b", "c"), P(("c", "a"), "b")),
    (P("b", "c"), P(None, "a"), P(("b", "a"), "c")),
    (P("c", "a"), P(None, "b"), P("a", ("c", "b"))),
]
DECOMPOSED = (P(None, ("b", "a")),), THREE_AXES, (P("b", ("c", "a")), P())
#: A function, its arrays, their cuts, the mesh, and the cuts of the results.
SHARED: dict[str, tuple[Any, ...]] = {
    # In plain JAX, XLA gives wrong values here without an error.
    "fewer_places_than_devices": (
        *(strided, (rough(RNG, (2, 8, 2)), rough(RNG, (3, 2, 2))), (P(None, "d"), P())),
    ),
    "dilated_taps": (
        *(dilated, (TAPS, np.ones((1, 1, 12), np.float32)), (P(), P(None, None, "d"))),
        Mesh(np.array(jax.devices()[:3]), ("d",)),
    ),
    "nan_in_its_group": (
        functools.partial(convolve, groups=6),
        *((NOT_FINITE, rough(RNG, (3, 1, 6))), (P("d"), P())),
    ),
    "paddings_float32": (bordered, (rough(RNG, (24,)),), (P("d"),)),
    "paddings_int32": (bordered, (rough(RNG, (24,)).astype(np.int32),), (P("d"),)),
    "product_over_three_axes": (product, MATRICES, PRODUCTS[0][:2], THREE_AXES, PRODUCTS[0][2]),
    "layouts": (
        *(turned, CUBES, (P(), P("a", None, "b"), P("a", "c")), THREE_AXES, None),
        lambda *arrays: turned(*arrays, P("a"), P("c", None, "b")),
    ),
    "reflections": (reflected, MATRICES[:1], *DECOMPOSED),
    "greatest": (greatest, (np.array([0, np.nan, -np.nan, 1] * 4, np.float32),), (P("d"),)),
    **{
        f"zeros_that_devices_send_{np.dtype(dtype).name}": (moved, (zeros(dtype),), (P("d"),))
        for dtype in (jnp.float32, jnp.bfloat16, jnp.complex64)
    },
    "zeros_of_few_elements": (constrained, (np.zeros((3, 4), np.float32),), (P(),), LINE, P()),
    "zeros_of_few_windows": (pooled, (-np.zeros(8, np.float32),), (P("d"),), LINE, (P(), P())),
}
ONCE: dict[str, tuple[Any, ...]] = {
    **{
        f"product_over_three_axes_{number}": (product, MATRICES, cuts[:2], THREE_AXES, cuts[2])
        for number, cuts in enumerate(PRODUCTS[1:])
    },
    "triangle": (triangle, MATRICES[:1], *DECOMPOSED),
    "transformed": (transformed, MATRICES[:1], *DECOMPOSED),
    "rotated": (rotated, MATRICES[:1], *DECOMPOSED),
}


@pytest.mark.parametrize(
    "name", [*SHARED, *(pytest.param(n, marks=pytest.mark.once) for n in ONCE)]
)
def test_arrays_that_are_cut_give_the_bits_of_one_device(name):
    given = (SHARED | ONCE)[name]
    defaults = (LINE, None, given[0])
    function, arrays, cuts, mesh, out, shared = given + defaults[len(given) - 3 :]
    out = jax.tree.map(lambda cut: NamedSharding(mesh, cut), out)
    placed = [
        jax.device_put(array, NamedSharding(mesh, cut))
        for array, cut in zip(arrays, cuts, strict=True)
    ]
    with impl.deterministic(guarantee="portable"):
        alone = jax.tree.leaves(jax.jit(function)(*arrays))
        several = jax.tree.leaves(jax.jit(shared, out_shardings=out)(*placed))
    assert_all_same_bits(several, alone)
    if name.startswith(("nan", "zeros_that_devices_send")):
        for one, plain in zip(alone, jax.tree.leaves(function(*arrays)), strict=True):
            assert np.array_equal(np.isfinite(one), np.isfinite(plain))
            assert np.array_equal(np.signbit(one.real)[one == 0], np.signbit(plain.real)[one == 0])


def stacked_rows(x):
    """Stacks two rows on an axis that four devices of a mesh share."""
    rows = jnp.stack([x, x])
    shared = NamedSharding(THREE_AXES, P(("a", "b"), "c"))
    return rows, jax.lax.with_sharding_constraint(rows, shared)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.complex64])
@pytest.mark.parametrize(
    ("function", "shape", "cut"),
    [(stacked_rows, (2,), P(None)), (jnp.unstack, (8, 2), P(("a", "b", "c")))],
    ids=["stack", "unstack"],
)
def test_zeros_of_stacks_keep_their_sign(function, shape, cut, dtype):
    x = jax.device_put(jnp.full(shape, -0.0, dtype), NamedSharding(THREE_AXES, cut))
    with impl.deterministic(guarantee="portable"):
        for each in jax.tree.leaves(jax.jit(function)(x)):
            assert np.signbit(np.asarray(each).real).all()


@pytest.mark.parametrize("devices", [3, 8])
def test_slices_of_constants_that_devices_share_keep_their_values(devices):
    # XLA folded the gathers of constants that stand for the strided slices of the derivative.
    x, ones = np.array([[-1, 1, 0, -1], [1, 1, 0, 1]], np.float32), np.ones((2, 4), np.float32)
    whole = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("d",)), P(None, None))
    shared = jax.device_put(x, whole)

    def gradient(x):
        return jax.vjp(lambda x: jax.lax.cummin(x, 1), x)[1](ones)[0]

    def of_constants():
        return gradient(shared), jax.lax.with_sharding_constraint(shared * 2, whole)

    with impl.deterministic(guarantee="portable"):
        want = jax.jit(gradient)(x)
        assert_same_bits(jax.jit(of_constants)()[0], want)
    np.testing.assert_array_equal(want[1], [1.5, 0.5, 2, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_an_update_beyond_the_end_is_moved_to_the_last_position(dtype):
    array, update = np.arange(16).reshape(2, 8).astype(dtype), np.zeros((2, 1), dtype)
    placed = jax.device_put(array, NamedSharding(LINE, P(None, "d")))

    @jax.jit
    def updated(array, start):
        return jax.lax.dynamic_update_slice_in_dim(array, update, start, 1)

    for start in (-20, 8, 200):
        expected = np.array(array)
        expected[:, 0 if start < 0 else -1] = 0
        with impl.deterministic(guarantee="portable"):
            # A start of 16 bits becomes one of 32, and has to stay of the dtype of the first one.
            shared = updated(placed, np.int16(start))
        np.testing.assert_array_equal(shared, expected)


def test_a_known_update_beyond_the_end_is_moved_whole():
    array, update, cut = np.arange(9), np.array([-1, -2]), NamedSharding(LINE, P("d"))

    def updated():
        found = jax.lax.dynamic_update_slice(jnp.array(array), jnp.array(update), (jnp.int32(8),))
        return jax.lax.with_sharding_constraint(found, cut)

    with impl.deterministic(guarantee="portable"):
        np.testing.assert_array_equal(jax.jit(updated)(), [*array[:7], *update])


def test_the_tangent_of_equal_elements_is_the_one_of_the_first():
    # XLA of JAX 0.12 goes through the windows of an array that devices share in another order.
    x = np.random.default_rng(0).integers(0, 2, (16, 3, 8)).astype(np.float32)
    tangent = np.arange(x.size, dtype=np.float32).reshape(x.shape)

    @jax.jit
    def tangents(x):
        pads = (0, 0), (1, 1), (0, 1)
        pool = functools.partial(jax.lax.reduce_window, init_value=-np.inf, padding=pads)
        options = {"window_dimensions": (1, 2, 2), "window_strides": (1, 1, 1)}
        return jax.jvp(lambda x: pool(x, computation=jax.lax.max, **options), (x,), (tangent,))[1]

    with impl.deterministic(guarantee="portable"):
        shared = tangents(jax.device_put(x, NamedSharding(LINE, P(None, None, "d"))))
        assert_same_bits(shared, tangents(x))
        first = jnp.stack([x[:, 0, :-1], x[:, 0, 1:]]).argmax(0) + tangent[:, 0, :-1]
    np.testing.assert_array_equal(shared[:, 0, :-1], first)
