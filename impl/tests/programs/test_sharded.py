"""The note of ``impl.audit`` on the equations whose bits depend on how devices share arrays.

``impl/tests/portable/scopes_on_eight_devices.py`` compares it with the bits of programs.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import impl

AXES = ("d", "m")
MESH = AbstractMesh((4, 2), AXES, axis_types=(AxisType.Auto,) * 2)
EXPLICIT = AbstractMesh((4, 2), AXES, axis_types=(AxisType.Explicit,) * 2)
ONE = AbstractMesh((1, 1), AXES, axis_types=(AxisType.Auto,) * 2)


def shape(*spec, mesh=MESH, size=16, dtype="float32"):
    return jax.ShapeDtypeStruct((size, 8), dtype, sharding=NamedSharding(mesh, P(*spec)))


ROWS, COLUMNS, WHOLE = shape("d"), shape(None, AXES), shape()
FEW, PLAIN = shape(size=8), jnp.ones((16, 8))


def added(x):
    return x.sum(0)


def constrained(*spec):
    return lambda x: added(lax.with_sharding_constraint(x, NamedSharding(MESH, P(*spec))))


def mapped(function, inside="d", outside="d"):
    specs = {"in_specs": P(inside), "out_specs": P(outside)}
    return jax.shard_map(function, mesh=MESH, check_vma=False, axis_names={"d"}, **specs)


@jax.jit
def layer(x, w):
    return jnp.tanh(x @ w)


def step(w, x):
    body = jax.checkpoint(lambda y, _: (layer(y, w), ()))
    return (lax.cond(w[0, 0] > 0, lambda: lax.scan(body, x, length=2)[0], lambda: x) * x)[0, 0]


def scattered(x, *, unique=False):
    return jnp.zeros((16, 8)).at[jnp.array([1, 2] * 8)].add(x, unique_indices=unique)


@pytest.mark.parametrize(
    ("function", "args", "ops"),
    [
        (added, [ROWS], ["reduce_sum"]),
        (added, [COLUMNS], ["reduce_sum"]),  # XLA adds 16 rows of 1 column in another order.
        (added, [shape("d", dtype="bfloat16")], ["reduce_sum"]),
        (lambda x: x.astype(int).sum(), [ROWS], []),
        (lambda x: jnp.sort(x, 0) + x.max(0) + jnp.argmax(x, 0) + jnp.exp(x), [ROWS], []),
        (lambda x, w: x * 2 + added(w), [ROWS, WHOLE], []),
        (lambda x: jnp.prod(added(x)), [ROWS], ["reduce_sum"]),
        (added, [shape("d", mesh=ONE)], []),
        (jax.jit(added, in_shardings=NamedSharding(MESH, P("d"))), [PLAIN], ["reduce_sum"]),
        (constrained("d"), [PLAIN], ["reduce_sum"]),
        (constrained(), [ROWS], []),
        (added, [shape(None, "m", mesh=EXPLICIT)], ["reduce_sum"]),
        (
            lambda x: added(jax.reshard(x, NamedSharding(EXPLICIT, P()))),
            [shape("d", mesh=EXPLICIT)],
            [],
        ),
        (jax.grad(step), [FEW, ROWS], ["dot_general"]),
        (lambda x, w: layer(w, w) + x[:8], [ROWS, FEW], []),
        (mapped(lambda x: lax.psum(x * 2, "d"), outside=None), [PLAIN], ["psum"]),
        (mapped(lambda x: lax.psum(x, "d"), None, None), [PLAIN], ["psum"]),
        (mapped(lambda x: x[None] * 2), [COLUMNS], []),
        (lambda x: added(mapped(jnp.tanh)(x)), [PLAIN], ["reduce_sum"]),
        (mapped(added, None, None), [ROWS], []),
        (scattered, [ROWS], ["scatter_add"]),
        (lambda x: scattered(x, unique=True), [ROWS], []),
        (lambda x: lax.reduce(x, np.float32(0), jnp.hypot, (0,)), [ROWS], ["reduce"]),
        (lambda x: lax.approx_min_k(x, 3), [ROWS], ["approx_max_k"]),
        (
            lambda x: lax.ragged_dot(x, jnp.ones((2, 8, 4)), jnp.array([8, 8])),
            [ROWS],
            ["dot_general"],
        ),
    ],
)
def test_the_note_names_what_combines_elements_that_devices_share(function, args, ops):
    for options in ({"mode": False}, {}):
        with impl.deterministic(**options):
            report = impl.audit(function, device="cpu")(*args)
        assert report.ok
        named = re.findall(r"lax\.(\w+) at ", report.notes[0]) if report.notes else []
        assert named == ops


def test_the_guarantee_decides_whether_devices_show():
    def notes(function, **options):
        return impl.audit(function, **options)(ROWS).notes

    scoped = impl.deterministic(guarantee="portable")(added)
    assert notes(scattered), "the mode is off"
    with impl.deterministic():
        assert notes(scattered) == notes(scoped) == ()
        shared, refused = notes(lambda x: lax.approx_max_k(x, 3), device="cpu")
    assert 'To do: take guarantee="portable"' in shared
    assert refused == 'guarantee="portable" refuses lax.approx_max_k: Use `jax.lax.top_k`.'
    with impl.deterministic(guarantee="portable"):
        assert notes(added) == ()
