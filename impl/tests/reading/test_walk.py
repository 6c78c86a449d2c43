"""The walk over a program: into which jaxprs it goes, and how often an equation counts."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.sharding import PartitionSpec

from impl._reading.values import Scope
from impl._reading.walk import walk

X, INDEX, UPDATES = jnp.ones(5), jnp.zeros(9, jnp.int32), jnp.ones(9)


def add(x, i, u):
    return x.at[i].add(u)


@jax.custom_jvp
def with_jvp(x, i, u):
    return add(x, i, u)


with_jvp.defjvps(lambda t, _, *rest: add(t, *rest[1:]), None, None)


@jax.custom_vjp
def with_vjp(x, i, u):
    return x + u[i[0]]


with_vjp.defvjp(
    lambda x, i, u: (x, (i, u)), lambda saved, g: (add(g, *saved), None, jnp.zeros_like(saved[1]))
)


@jax.custom_batching.custom_vmap
def with_vmap(x, i, u):
    return add(x, i, u)


with_vmap.def_vmap(lambda *_: (None, None))


def gradient(function):
    return jax.grad(lambda *args: function(*args).sum())


def sharded(x, i, u):
    mesh = jax.make_mesh((1,), ("d",))
    every = PartitionSpec()
    return jax.shard_map(add, mesh=mesh, in_specs=(every,) * 3, out_specs=every)(x, i, u)


def chosen(x, i, u):
    return lax.platform_dependent(
        x, cpu=lambda x: x, cuda=lambda x: add(x, i, u), default=lambda x: -x
    )


def solved(x, i, u):
    def matrix(v):
        return v + 0 * add(v, i, u)

    return lax.custom_linear_solve(matrix, x, lambda _, b: add(b, i, u), symmetric=True)


def kept_not(u, x, i):
    return jax.checkpoint(lambda u: jnp.sin(add(x, i, jnp.sin(u))).sum())(u)


#: The programs, and the path of each scatter-add in them.
PROGRAMS = {
    "plain": (add, [()]),
    "jit": (jax.jit(add), [("jit add",)]),
    "two calls": (
        lambda x, i, u: jax.jit(add)(jax.jit(add)(x, i, u), i, u),
        [("jit add",)] * 2,
    ),
    "scan": (
        lambda x, i, u: lax.scan(lambda c, _: (add(c, i, u), None), x, None, length=4)[0],
        [("scan",)],
    ),
    "while": (
        lambda x, i, u: lax.while_loop(
            lambda c: add(c, i, u).sum() < 9, lambda c: add(c, i, u) * 2, x
        ),
        [("while",)] * 2,
    ),
    "cond": (
        lambda x, i, u: lax.cond(x[0] > 0, lambda: add(x, i, u), lambda: add(-x, i, u)),
        [("cond",)] * 2,
    ),
    "custom_jvp": (with_jvp, [("custom_jvp_call",)]),
    "tangent of custom_jvp": (lambda x, i, u: jax.jvp(lambda x: with_jvp(x, i, u), (x,), (x,)),
        [("custom_jvp_call",), ()]),
    "custom_vjp": (with_vjp, []),
    "gradient of custom_vjp": (gradient(with_vjp), [()]),
    "custom_vmap": (with_vmap, [("custom_vmap_call",)]),
    "remat": (jax.checkpoint(add), [("REMAT",)]),
    "shard_map": (sharded, [("shard_map",)]),
    "gradient of a gather": (gradient(lambda x, i, _: x[i]), [()]),
    "solve": (solved, [("custom_linear_solve",)]),
}  # fmt: skip


def paths(function, platform=None, *args):
    closed = jax.make_jaxpr(function)(*(args or (X, INDEX, UPDATES)))
    sites = walk(Scope(closed.jaxpr), lambda name: name == "scatter-add", platform=platform)
    return [site.path for site in sites if site.name == "scatter-add"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_scatter_is_found_as_often_as_the_program_has_it(name):
    function, expected = PROGRAMS[name]
    found = [
        tuple("REMAT" if part in ("checkpoint", "remat", "remat2") else part for part in path)
        for path in paths(function)
    ]
    assert sorted(found) == sorted(expected)


def test_rematerialization_computes_the_scatter_again():
    # The gradient of the sine needs the sum, which is not kept.
    kept = jax.grad(lambda u, x, i: jnp.sin(add(x, i, jnp.sin(u))).sum())
    assert len(paths(lambda x, i, u: jax.value_and_grad(kept_not)(u, x, i))) == 2
    assert len(paths(lambda x, i, u: kept(u, x, i))) == 1


@pytest.mark.parametrize(("platform", "count"), [("cpu", 0), ("cuda", 1), ("tpu", 0), (None, 1)])
def test_of_a_program_for_platforms_one_branch_counts(platform, count):
    assert len(paths(chosen, platform)) == count


def test_a_primitive_that_does_more_than_run_its_jaxpr_is_yielded():
    mine = Primitive("mine")
    mine.def_abstract_eval(lambda x, **_: x)
    inner = jax.make_jaxpr(add)(X, INDEX, UPDATES)
    closed = jax.make_jaxpr(lambda x: mine.bind(x, jaxpr=inner))(X)
    sites = list(walk(Scope(closed.jaxpr), lambda name: name == "scatter-add"))
    assert sites[0].name == "mine"
    assert sites[-1].name == "scatter-add"
    assert sites[-1].path == ("mine",)


def test_the_shapes_of_a_site_are_those_of_its_operands():
    closed = jax.make_jaxpr(add)(X, INDEX, UPDATES)
    last = list(walk(Scope(closed.jaxpr), lambda name: name == "scatter-add"))[-1]
    assert last.shapes == "f32[5] i32[9,1] f32[9]"
