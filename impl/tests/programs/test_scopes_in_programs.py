"""Scopes inside of traced functions: they hold for the equations that are traced in them.

Every transformation of JAX gets a function whose body is in a scope. Where the scope turns the mode
on, nothing races although the mode is off; where it turns the mode off, it races as plain JAX does.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
from impl.tests.programs.texts import races

RNG = np.random.default_rng(0)
INDEX = RNG.integers(0, 5, 24, np.int32)
X = RNG.normal(size=5).astype(np.float32)
UPDATES = RNG.normal(size=24).astype(np.float32)
MATRIX = jnp.eye(4) + jnp.arange(16.0).reshape(4, 4)
SINGULAR = "lax.linalg.svd of float32.* has no portable path"


def loss(x, u):
    """A gather, whose gradient is a scatter, and a scatter."""
    return (x[INDEX] * u).sum() + (x.at[INDEX].add(u) ** 2).sum()


def with_own_backward(f):
    @jax.custom_vjp
    def g(x, u):
        return f(x, u)

    g.defvjp(lambda x, u: (f(x, u), (x, u)), lambda saved, c: jax.grad(f, (0, 1))(*saved))
    return jax.grad(g)


def with_own_tangents(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: jax.jvp(f, primals, tangents))
    return jax.grad(g)


def with_own_batches(f):
    g = jax.custom_batching.custom_vmap(f)
    g.def_vmap(lambda size, in_batched, x, u: (jax.vmap(f, (0, None))(x, u), True))
    return lambda x, u: jax.vmap(g, (0, None))(jnp.outer(u[:3], x), u)


def in_shards(f):
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    return jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P())


def pulled_back_outside(f):
    def run(x, u):
        value, pull = jax.vjp(f, x, u)
        with impl.deterministic(impl.are_deterministic_algorithms_enabled()):
            return pull(value)

    return run


def called_elsewhere(f):
    """A program that was traced before, which the scope of ``f`` is in."""
    return jaxpr_as_fun(jax.make_jaxpr(jax.jit(f))(X, UPDATES))


#: What a user may do with a function of two arrays.
TRANSFORMED = {
    "jit": lambda f: f,
    "inner jit": jax.jit,
    "inner jit, inlined": functools.partial(jax.jit, inline=True),
    "grad": jax.grad,
    "grad of inner jit": lambda f: jax.grad(jax.jit(f)),
    "jvp": lambda f: lambda x, u: jax.jvp(f, (x, u), (x, u)),
    "hessian": jax.hessian,
    "vmap": lambda f: lambda x, u: jax.vmap(f, (0, None))(jnp.outer(u[:3], x), u),
    "vmap of grad of jit": lambda f: (
        lambda x, u: jax.vmap(jax.grad(jax.jit(f)), (0, None))(jnp.outer(u[:3], x), u)
    ),
    "scan": lambda f: (
        lambda x, u: lax.scan(lambda c, k: (c + f(c, k * u), ()), x, jnp.arange(3.0))[0]
    ),
    "grad of scan": lambda f: jax.grad(
        lambda x, u: lax.scan(lambda c, k: (c * f(c, k * u), ()), x, jnp.arange(3.0))[0].sum()
    ),
    "while": lambda f: (
        lambda x, u: lax.while_loop(lambda s: s[0] < 9, lambda s: s + f(s, u), x + f(x, u))
    ),
    "condition of while": lambda f: (
        lambda x, u: lax.while_loop(lambda s: f(s, u) < 9, lambda s: s + 1, x)
    ),
    "cond": lambda f: lambda x, u: lax.cond(x[0] > 0, f, lambda x, u: x[0], x, u),
    "grad of cond": lambda f: jax.grad(
        lambda x, u: lax.cond(x[0] > 0, f, lambda x, u: x[0], x, u)
    ),
    "remat": lambda f: jax.grad(jax.checkpoint(f)),
    "remat of jit in scan": lambda f: jax.grad(
        lambda x, u: lax.scan(
            jax.checkpoint(lambda c, k: (c * jax.jit(f)(c, k * u), ())), x, jnp.arange(3.0)
        )[0].sum()
    ),
    "custom_vjp": with_own_backward,
    "custom_jvp": with_own_tangents,
    "custom_vmap": with_own_batches,
    "vjp, pulled back outside of the scope": pulled_back_outside,
    "linearize": lambda f: lambda x, u: jax.linearize(lambda x: f(x, u), x)[1](x),
    "shard_map": in_shards,
    "grad of shard_map": lambda f: jax.grad(in_shards(f)),
    "fori_loop": lambda f: lambda x, u: lax.fori_loop(0, 3, lambda i, c: c + f(c, u), x),
    "map": lambda f: lambda x, u: lax.map(lambda x: f(x, u), jnp.outer(u[:3], x), batch_size=2),
    "associative_scan": lambda f: (
        lambda x, u: lax.associative_scan(jax.vmap(lambda a, b: a + b * f(x, u)), u)
    ),
    "custom_linear_solve": lambda f: (
        lambda x, u: lax.custom_linear_solve(lambda v: v, x, lambda _, b: b * f(x, u))
    ),
    "eval_jaxpr": called_elsewhere,
}
each_transformation = pytest.mark.parametrize("transform", TRANSFORMED.values(), ids=TRANSFORMED)


def races_on_gpus(transform, *, mode, scope=None):
    """Returns the number of racing scatters of a program, whose function may be in a scope."""
    impl.use_deterministic_algorithms(mode)
    function = loss if scope is None else impl.deterministic(scope)(loss)
    # Not for a named GPU: a mesh of devices at hand is no mesh of it.
    lowered = jax.jit(transform(function)).trace(X, UPDATES).lower(lowering_platforms=("cuda",))
    return len(races(lowered.as_text()))


@each_transformation
def test_a_scope_orders_what_is_traced_in_it(transform):
    plain = races_on_gpus(transform, mode=False)
    assert plain > 0
    assert races_on_gpus(transform, mode=False, scope=True) == 0
    assert races_on_gpus(transform, mode=True, scope=False) == plain
    assert races_on_gpus(transform, mode=True) == 0


def singular_values(x, u):
    return jnp.linalg.svd(x, compute_uv=False).sum() * u.sum()


@each_transformation
def test_a_scope_exempts_what_the_guarantee_refuses(transform):
    impl.use_deterministic_algorithms(True, guarantee="portable")

    def part(x, u):
        return singular_values(MATRIX * x[0], u)

    def lowered(function):
        return jax.jit(transform(function)).lower(X, UPDATES)

    with pytest.raises(RuntimeError, match=SINGULAR):
        lowered(part)
    lowered(impl.deterministic(False)(part))
    lowered(impl.deterministic(guarantee="run_to_run")(part))
