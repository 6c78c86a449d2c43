"""Micro-batches on 1, 2 and 8 devices; ``test_engines`` runs it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._portable.carried_sums import stacked
from impl.tests.exact._sums import assert_same, rough
from impl.tests.portable.test_carried_sums import network, weights

pytestmark = pytest.mark.usefixtures("portable")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(7)
    return weights(rng), jnp.asarray(rng.integers(0, 5, 48))


loss = functools.partial(network, remat=True)


def accumulated(params, tokens, number, *, varies=False):
    """Returns the gradient of micro-batches, added in a scan."""
    start = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
    if varies:  # With check_vma, the zeros of ``params`` vary as ``params`` do.
        start = lax.pcast(start[0], ("d",), to="varying"), start[1]

    def add(total, part):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(params, part)), None

    return lax.scan(add, start, tokens.reshape(number, -1))[0]


def assert_equal(got, want):
    for one, another in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.asarray(another).any()
        assert_same(one, another)


def mesh_of(devices):
    return Mesh(np.array(jax.devices()[:devices]), ("d",))


@pytest.fixture(scope="module")
def want(problem):
    with impl.deterministic(guarantee="portable", profile="complete"):
        return jax.jit(jax.value_and_grad(loss))(*problem)


@pytest.mark.parametrize(
    ("devices", "number", "room"),
    [(8, 6, 1 << 40), pytest.param(8, 1, -1, marks=pytest.mark.once)],
)
def test_sharded_by_jit(problem, want, monkeypatch, devices, number, room):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", room)  # Whether the scan stacks factors.
    params, tokens = problem
    mesh = mesh_of(devices)
    placed = jax.device_put(tokens, NamedSharding(mesh, P("d")))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    step = jax.jit(functools.partial(accumulated, number=number))
    assert_equal(step(params, placed), want)


@pytest.mark.parametrize(
    ("devices", "number", "check", "room"),
    [
        pytest.param(2, 12, False, -1, marks=pytest.mark.once),
        (4, 3, False, 1 << 40),
        (8, 2, True, 1 << 40),
    ],
)
def test_in_a_shard_map(problem, want, monkeypatch, devices, number, check, room):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", room)

    def step(params, tokens):
        if check:
            params = lax.pcast(params, ("d",), to="varying")
        return lax.psum(accumulated(params, tokens, number, varies=check), "d")

    mapped = jax.shard_map(
        step, mesh=mesh_of(devices), in_specs=(P(), P("d")), out_specs=P(), check_vma=check
    )
    lowered = jax.jit(mapped).lower(*problem)
    assert ("tensor<6x5x4xui32>" in lowered.as_text()) is (room < 0)  # The embedding's state.
    assert_equal(lowered.compile()(*problem), want)


def test_a_second_count_on_some_devices(monkeypatch):
    monkeypatch.setattr(stacked, "BYTES_OF_SUM", -1)  # The scan carries states.
    # Of the columns of devices along "m", only the first two cancel, and are in doubt. All devices
    # count again, since they wait for each other in the body.
    rng = np.random.default_rng(1)
    x, y = (rough(rng, shape, spread=3) for shape in ((16, 3), (16, 8)))
    x[1::2], y[1::2, :2] = x[::2], -y[::2, :2]
    x, y = jnp.asarray(x), jnp.asarray(y)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("d", "m"))

    def step(x, y):
        def add(total, part):
            return total + lax.psum(part[0] / 4, "m").T @ part[1], None

        parts = x.reshape(2, -1, 3), y.reshape(2, -1, y.shape[1])
        total, _ = lax.scan(add, jnp.zeros((3, y.shape[1])), parts)
        return lax.psum(total, "d")

    specs = {"in_specs": (P("d"), P("d", "m")), "out_specs": P(None, "m")}
    got = jax.jit(jax.shard_map(step, mesh=mesh, check_vma=False, **specs))(x, y)
    assert not np.asarray(got)[:, :2].any()
    assert_same(got, jax.jit(lambda x, y: x.T @ y)(x, y))
