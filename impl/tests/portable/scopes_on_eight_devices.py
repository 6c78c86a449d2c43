"""Scopes and engines inside of programs on 1 and 8 devices; ``test_engines`` runs it."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from impl._mode import modes
from impl._reading import compiled
from impl.programs._auditing.judge import Judge

COUNTS = (1, 8)


def sharding(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("d",)), P("d"))


def digest(tree):
    whole = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        assert np.isfinite(leaf).all()
        assert np.any(leaf)
        whole.update(np.asarray(leaf).tobytes())
    return whole.hexdigest()


def metrics(hidden):
    """Returns values that no rule makes portable, of arrays that the program computes too."""
    return (
        jnp.linalg.svd(hidden, compute_uv=False),
        jnp.abs(jnp.fft.rfft(hidden, axis=0)),
        (hidden * hidden + hidden).sum(),
        hidden @ hidden.T,
    )


@pytest.mark.parametrize("guarantee", ["run_to_run", pytest.param(None, marks=pytest.mark.once)])
def test_metrics_that_are_logged_leave_the_bits_of_a_portable_step(rng, guarantee):
    scope = impl.deterministic(guarantee is not None, guarantee=guarantee)
    weights = (rng.normal(size=(5, 6)), rng.normal(size=(6, 3)))
    weights = jax.tree.map(lambda w: w.astype(np.float32), weights)
    batch = rng.normal(size=(16, 5)).astype(np.float32)

    def loss(weights, batch, logs):
        hidden = jnp.tanh(batch @ weights[0])
        return jnp.mean((hidden @ weights[1]) ** 2), scope(metrics)(hidden) if logs else ()

    def step(weights, batch, logs):
        gradients, logged = jax.grad(loss, has_aux=True)(weights, batch, logs)
        if logs:
            logged = (logged, scope(metrics)(gradients[0]))
        return jax.tree.map(lambda w, g: w - g / 8, weights, gradients), logged

    digests = set()
    for count in COUNTS:
        parts = jax.device_put(batch, sharding(count))
        for logs in (False, True):
            with impl.deterministic(guarantee="portable"):
                new, logged = jax.jit(step, static_argnums=2)(weights, parts, logs)
            assert bool(jax.tree.leaves(logged)) is logs
            digests.add(digest(new))
    assert len(digests) == 1


def summed(x, z):
    return lax.psum((jnp.tanh(x) * z[:, None]).sum(0), "d")


def test_a_sum_over_devices_in_a_scope_is_joined_and_one_outside_is_not(rng):
    x, z = (rng.normal(size=shape).astype(np.float32) for shape in ((32, 5), 32))

    def logs(x, z):
        result = summed(x, z)
        with impl.deterministic(False):
            return result, lax.psum((x * z[:, None]).sum(0), "d")

    def in_scope(x, z):
        with impl.deterministic(guarantee="portable"):
            return summed(x, z)

    def on(count, function):
        specs = {"mesh": sharding(count).mesh, "in_specs": P("d"), "out_specs": P()}
        return jax.jit(jax.shard_map(function, **specs))(x, z)

    with impl.deterministic(guarantee="portable"):
        digests = {digest(on(count, summed)) for count in COUNTS}
        digests |= {digest(on(count, logs)[0]) for count in COUNTS}
        exempt = {digest(on(count, logs)[1]) for count in COUNTS}
    digests |= {digest(on(count, in_scope)) for count in COUNTS}
    assert len(digests) == 1
    assert len(exempt) > 1
    assert len({digest(on(count, summed)) for count in COUNTS}) > 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_enters_a_portable_scope_is_rounded(rng, dtype):
    a, b, c = (jnp.asarray(rng.normal(size=1000), dtype) for _ in range(3))

    def added(a, b, c):
        product = a * b
        with impl.deterministic(guarantee="portable"):
            return product + c

    # With no optimisation, XLA contracts nothing.
    options = {"xla_backend_optimization_level": 3}
    result, plain = (
        jax.jit(function).lower(a, b, c).compile(compiler_options=options)(a, b, c)
        for function in (added, lambda a, b, c: a * b + c)
    )
    with jax.disable_jit():
        expected = a * b + c
    assert digest(result) == digest(expected)
    if dtype == "float32":  # Without the scope, XLA contracts `a * b + c`.
        assert digest(plain) != digest(expected)


def test_sums_over_devices_that_xla_adds_are_noted_and_read(rng):
    x = jnp.asarray(rng.normal(size=(8, 3)), np.float32)
    placed = jax.device_put(x, sharding(8))

    def program(x):
        return x.sum(0)

    report = impl.audit(program)(placed)
    assert report.ok
    assert "sums over devices" in str(report)
    assert impl.audit(program)(x).notes == ()
    of_cpu = impl.audit(program, device="cpu", level="compiled")(placed)
    assert of_cpu.ok
    assert of_cpu.notes == report.notes
    # A CPU adds in the order of its devices, a GPU as NCCL chooses.
    text = jax.jit(program).lower(placed).compile().as_text()
    judge = Judge("cuda", modes.current(), False)
    (found,) = map(judge.of_instruction, compiled.instructions(text, timed_kernels=False)[0])
    assert (found.primitive, found.verdict) == ("lax.psum", "unknown")


def scattered(operation):
    return lambda x: getattr(jnp.ones((3, 8)).at[jnp.arange(64) % 3], operation)(1 + x / 8)


def pooled(x):
    windows = lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")
    return (windows * x).sum(1)


def image(x):
    return x.reshape(1, 64, 2, 4)


#: By the op that the audit names: programs whose bits show how devices share rows.
SHOWING = {
    "lax.approx_max_k": lambda x: lax.approx_max_k(jnp.round(x), 3, reduction_dimension=0),
    "lax.conv_general_dilated": lambda x: lax.conv(
        image(x), jnp.ones((2, 64, 2, 2)), (1, 1), "SAME"
    ),
    "lax.cumlogsumexp": lax.cumlogsumexp,
    "lax.cumprod": lambda x: lax.cumprod(1 + x / 8),
    "lax.cumsum": lax.cumsum,
    "lax.dot_general": lambda x: x.T @ x,
    "lax.reduce": lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b * 1, (0,)),
    "lax.reduce_prod": lambda x: jnp.prod(1 + x / 8, 0),
    "lax.reduce_sum": lambda x: x.sum(0),
    "lax.scatter_add": scattered("add"),
    "lax.scatter_mul": scattered("multiply"),
    "lax.select_and_scatter_add": jax.grad(lambda x: (pooled(x) * jnp.arange(64)).sum()),
}
#: Programs that compute each element by itself, move or compare elements, or add integers.
HIDING = (
    lambda x: jnp.tanh(x) * jnp.exp(x) + 1,
    lambda x: lax.sort(x, dimension=0),
    lambda x: lax.top_k(jnp.round(x).T, 3),
    lambda x: (x.max(0), jnp.argmax(jnp.round(x), 0), lax.cummax(x)),
    lambda x: x.astype(int).sum(0) + jnp.cumsum(x.astype(int), 0),
    lambda x: x[jnp.arange(64) % 3],
    lambda x: jnp.zeros((80, 8)).at[jnp.arange(64) + 3].add(x, unique_indices=True),
    lambda x: x + jax.random.normal(jax.random.key(0), (64, 8)),
)


def test_an_audit_names_what_shows_how_devices_share_an_array(rng):
    x, programs = rng.normal(size=(64, 8)).astype(np.float32), [*SHOWING.values(), *HIDING]
    placed = [jax.device_put(x, sharding(count)) for count in COUNTS]
    with impl.deterministic():
        # Each has an argument of its own: JAX 0.10 merges paddings of one array.
        jitted = jax.jit(lambda *xs: [f(x) for f, x in zip(programs, xs, strict=True)])
        one, eight = (map(digest, jitted(*[each] * len(programs))) for each in placed)
        notes = [impl.audit(function, device="cpu")(placed[1]).notes for function in programs]
    _, *differ = [a != b for a, b in zip(one, eight, strict=True)]
    # JAX 0.12 has one order of the equal elements that `approx_max_k` finds.
    assert differ == [True] * (len(SHOWING) - 1) + [False] * len(HIDING)
    for op, (note, *_) in zip(SHOWING, notes, strict=False):
        assert f"of {op} at " in note
    assert notes[len(SHOWING) :] == [()] * len(HIDING)
