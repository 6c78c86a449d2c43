"""Operations that move elements of an array which eight devices share; ``test_ops`` runs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl.tests.exact._sums import rough
from impl.tests.support.bits import assert_same_bits

RNG = np.random.default_rng(4)
SCALE = np.float32(1.1)

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


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.complex64])
def test_zeros_that_devices_send_keep_their_sign(dtype):
    x = jnp.asarray(np.where(rough(RNG, (16, 8)) > 0, -0.0, 1.0), dtype)
    cut = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))

    def moved(x):
        return {name: move(x) for name, move in MOVES.items()}

    with impl.deterministic(guarantee="portable"):
        alone, shared = jax.jit(moved)(x), jax.jit(moved)(jax.device_put(x, cut))
    plain = moved(x)
    for name in MOVES:
        leaves = (jax.tree.leaves(each[name]) for each in (alone, shared, plain))
        for one, another, expected in zip(*leaves, strict=True):
            assert_same_bits(np.asarray(another), np.asarray(one), name)
            assert_same_bits(np.asarray(one), np.asarray(expected), name)


def constrained(x):
    mesh = Mesh(np.array(jax.devices()), ("d",))
    cut = jax.lax.with_sharding_constraint(-x, NamedSharding(mesh, P("d")))
    return jax.lax.with_sharding_constraint(cut, NamedSharding(mesh, P()))


def pooled(x):
    """Has fewer windows than devices; the gradient divides windows and elements among devices."""
    pool, pullback = jax.vjp(
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2,), (2,), "VALID"), x
    )
    return pool, *pullback(pool * SCALE)


@pytest.mark.parametrize(("function", "shape"), [(constrained, (3, 4)), (pooled, (8,))])
def test_zeros_of_few_elements_keep_their_sign(function, shape):
    x = np.full(shape, 0.0 if function is constrained else -0.0, np.float32)
    whole = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P())
    given = jax.device_put(x, whole if function is constrained else whole.update(spec=P("d")))
    with impl.deterministic(guarantee="portable"):
        alone, shared = jax.jit(function)(x), jax.jit(function, out_shardings=whole)(given)
    for one, another in zip(jax.tree.leaves(alone), jax.tree.leaves(shared), strict=True):
        assert_same_bits(np.asarray(another), np.asarray(one))


THREE_AXES = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))


def stacked(x):
    """Stacks two rows on an axis that four devices of a mesh share."""
    rows = jnp.stack([x, x])
    shared = NamedSharding(THREE_AXES, P(("a", "b"), "c"))
    return rows, jax.lax.with_sharding_constraint(rows, shared)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.complex64])
@pytest.mark.parametrize(
    ("function", "shape", "cut"),
    [(stacked, (2,), P(None)), (jnp.unstack, (8, 2), P(("a", "b", "c")))],
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
@pytest.mark.parametrize("start", [-20, 8, 200])
def test_an_update_beyond_the_end_is_moved_to_the_last_position(start, dtype):
    array, update = np.arange(16).reshape(2, 8).astype(dtype), np.zeros((2, 1), dtype)
    cut = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P(None, "d"))
    expected = np.array(array)
    expected[:, 0 if start < 0 else -1] = 0

    @jax.jit
    def updated(array, start):
        return jax.lax.dynamic_update_slice_in_dim(array, update, start, 1)

    with impl.deterministic(guarantee="portable"):
        # A start of 16 bits becomes one of 32 bits, and has to stay of the dtype of the first one.
        shared = updated(jax.device_put(array, cut), np.int16(start))
    np.testing.assert_array_equal(shared, expected)
