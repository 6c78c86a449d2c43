"""Small programs that differentiate, drawn at random: scatters, gathers, pools, loops, branches."""

import jax
import jax.numpy as jnp
from jax import lax

from impl.tests.run_to_run.drawn_scatters import draw as draw_scatter

#: The shape of the state of every program.
SHAPE = (6, 4)
SCATTERS = ("scatter_add", "scatter_sub", "scatter", "scatter_max", "scatter_min")


def draw(rng, steps=3):
    """Returns the gradient of a program of some steps, as a function of its state."""
    drawn = [_step(rng) for _ in range(steps)]

    def loss(x):
        for step in drawn:
            x = jnp.tanh(step(x)) + x / 2
        return (x**2).sum()

    return jax.grad(loss)


def _step(rng, depth=0):
    kinds = [_scatter, _scatter, _gather, _rows, _segments, _pool]
    if depth == 0:
        kinds += [_scan, _loop, _cond, _mapped, _remat]
    return kinds[rng.integers(len(kinds))](rng)


def _scatter(rng):
    """A scatter of any form, whose operand and updates are made of the state."""
    case = draw_scatter(rng, "float32", str(rng.choice(SCATTERS)))
    # JAX's own gradient of these is NaN in places, if a window is out of bounds.
    is_extreme = case.name in ("scatter_max", "scatter_min")

    def step(x):
        operand = jnp.resize(x, case.operand.shape)
        updates = jnp.resize(jnp.sin(3 * x), case.updates.shape)
        out = jnp.resize(case(operand, case.indices, updates), SHAPE)
        return x + lax.stop_gradient(out) if is_extreme else out

    return step


def _gather(rng):
    """Elements along an axis; each may be read several times."""
    axis = int(rng.integers(2))
    shape = (9, SHAPE[1]) if axis == 0 else (SHAPE[0], 9)
    index = jnp.asarray(rng.integers(0, SHAPE[axis], shape))
    return lambda x: jnp.resize(jnp.cos(jnp.take_along_axis(x, index, axis)), SHAPE)


def _rows(rng):
    """Rows and single elements that an index repeats."""
    rows, columns = (jnp.asarray(rng.integers(-2, size, 11)) for size in SHAPE)
    return lambda x: jnp.resize(x[rows] * x[rows, columns][:, None], SHAPE)


def _segments(rng):
    ids = jnp.asarray(rng.integers(0, SHAPE[0], 15))
    source = jnp.asarray(rng.integers(0, SHAPE[0], 15))
    return lambda x: jax.ops.segment_sum(jnp.exp(-x[source]), ids, SHAPE[0])


def _pool(rng):
    window = tuple(int(size) for size in rng.integers(1, 4, 2))
    extreme, initial = [(lax.max, -jnp.inf), (lax.min, jnp.inf)][rng.integers(2)]
    # Without ties, whose winner the last bit would decide.
    apart = jnp.asarray(rng.permutation(SHAPE[0] * SHAPE[1]).reshape(SHAPE), jnp.float32)
    return lambda x: lax.reduce_window(x + apart, initial, extreme, window, (1, 1), "SAME") / 9


def _scan(rng):
    inner = _step(rng, 1)
    return lambda x: lax.scan(lambda c, k: (jnp.tanh(inner(c) + k), None), x, jnp.arange(2.0))[0]


def _loop(rng):
    inner = _step(rng, 1)
    return lambda x: lax.fori_loop(0, 2, lambda _, c: jnp.tanh(inner(c)), x)


def _cond(rng):
    branches = [_step(rng, 1), _step(rng, 1)]
    return lambda x: lax.switch((x[0, 0] > 0).astype(int), branches, x)


def _mapped(rng):
    inner = _step(rng, 1)
    return lambda x: jax.vmap(inner)(jnp.stack([x, -x, x / 2])).sum(0)


def _remat(rng):
    return jax.checkpoint(_step(rng, 1))
