"""Programs under every transformation of JAX: with the mode on, no equation races.

The audit finds the races that there are with the mode off. Scopes inside of traced functions hold
for the equations that are traced in them: each transformation gets a function whose body is in a
scope. Where the scope turns the mode on, nothing races although the mode is off; where it turns the
mode off, it races as plain JAX does.

Tests: impl._jax.tags, impl._portable.shared.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
from impl._jax import tags
from impl.tests.programs.texts import OPTIONS, compared, races, text
from impl.tests.support.bits import assert_all_same_bits

RNG = np.random.default_rng(0)
INDEX = RNG.integers(0, 5, 24, np.int32)
X = RNG.normal(size=5).astype(np.float32)
UPDATES = RNG.normal(size=24).astype(np.float32)
MATRIX = jnp.eye(4) + jnp.arange(16.0).reshape(4, 4)
REFUSED = "lax.bessel_i0e of float32.* has no portable path.* A value that is only logged may be "


def loss(x, u):
    """A gather, whose gradient is a scatter, and a scatter."""
    return (x[INDEX] * u).sum() + (x.at[INDEX].add(u) ** 2).sum()


def with_own_backward(f):
    @jax.custom_vjp
    def g(x, u):
        return f(x, u)

    g.defvjp(lambda x, u: (f(x, u), (x, u)), lambda saved, _: jax.grad(f, (0, 1))(*saved))
    return jax.grad(g)


def with_own_tangents(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda primals, tangents: jax.jvp(f, primals, tangents))
    return jax.grad(g)


def with_own_batches(f):
    g = jax.custom_batching.custom_vmap(f)
    g.def_vmap(lambda _, __, x, u: (jax.vmap(f, (0, None))(x, u), True))
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


def with_mutable_array(f):
    def run(x, u):
        total = jax.new_ref(x)

        @functools.partial(lax.fori_loop, 0, 3, init_val=None)
        def add(*_):
            total[...] += f(total[...], u)

        return total[...]

    return run


def called_elsewhere(f):
    """Returns a program traced beforehand, which contains the scope of ``f``."""
    return jaxpr_as_fun(jax.make_jaxpr(jax.jit(f))(X, UPDATES))


#: The ways in which a user may call a function of two arrays.
TRANSFORMED: dict[str, Callable[..., Any]] = {
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
    "cond": lambda f: lambda x, u: lax.cond(x[0] > 0, f, lambda x, _: x[0], x, u),
    "grad of cond": lambda f: jax.grad(lambda x, u: lax.cond(x[0] > 0, f, lambda x, _: x[0], x, u)),
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
    "fori_loop": lambda f: lambda x, u: lax.fori_loop(0, 3, lambda _, c: c + f(c, u), x),
    "map": lambda f: lambda x, u: lax.map(lambda x: f(x, u), jnp.outer(u[:3], x), batch_size=2),
    "associative_scan": lambda f: (
        lambda x, u: lax.associative_scan(jax.vmap(lambda a, b: a + b * f(x, u)), u)
    ),
    "custom_linear_solve": lambda f: (
        lambda x, u: lax.custom_linear_solve(lambda v: v, x, lambda _, b: b * f(x, u))
    ),
    "custom_root": lambda f: jax.grad(
        lambda x, u: lax.custom_root(
            lambda y: y - f(x, u), x[0], lambda g, y: y - g(y), lambda g, y: y / g(1.0)
        )
    ),
    "composite": lambda f: lax.composite(f, "own.f"),
    "mutable array": with_mutable_array,
    "eval_jaxpr": called_elsewhere,
}
each_transformation = pytest.mark.parametrize("transform", TRANSFORMED.values(), ids=TRANSFORMED)


def races_on_gpus(transform, *, mode, scope=None):
    """Returns the racing scatters of a program, whose function may be in a scope."""
    impl.use_deterministic_algorithms(mode)
    function = loss if scope is None else impl.deterministic(scope)(loss)
    # ``impl.testing.lower`` names a GPU, and a mesh of this process has no device of it.
    lowered = jax.jit(transform(function)).trace(X, UPDATES).lower(lowering_platforms=("cuda",))
    return races(lowered.as_text())


@each_transformation
def test_a_scope_orders_what_is_traced_in_it(transform):
    plain = races_on_gpus(transform, mode=False)
    assert {compared(f) for f in impl.audit(transform(loss))(X, UPDATES).select("varies")} == {
        *plain
    }
    assert plain
    assert not races_on_gpus(transform, mode=False, scope=True)
    assert races_on_gpus(transform, mode=True, scope=False) == plain
    assert not races_on_gpus(transform, mode=True)


def refused(x, u):
    return lax.bessel_i0e(x).sum() * u.sum()


@pytest.mark.parametrize(
    "name", ["inner jit", "grad of scan", "cond", "remat of jit in scan", "custom_vjp", "shard_map"]
)
def test_a_scope_exempts_what_the_guarantee_refuses(name):
    transform = TRANSFORMED[name]
    impl.use_deterministic_algorithms(True, guarantee="portable")

    def part(x, u):
        return refused(MATRIX * x[0], u)

    def lowered(function):
        return jax.jit(transform(function)).lower(X, UPDATES)

    with pytest.raises(RuntimeError, match=REFUSED):
        lowered(part)
    lowered(impl.deterministic(False)(part))
    lowered(impl.deterministic(guarantee="run_to_run")(part))


def test_the_innermost_scope_decides():
    impl.use_deterministic_algorithms(True)

    def nested(x, u):
        with impl.deterministic(False):
            first = loss(x, u)
            with impl.deterministic(profile="complete"):
                second = loss(x, u)
            return first + second + loss(x, u)

    found = races(text(jax.grad(nested), X, UPDATES, platform="cuda"))
    assert len(found) == 2 * len(races_on_gpus(jax.grad, mode=False))


@pytest.mark.parametrize("hidden", [jax.jit, lambda f: f], ids=["inner jit", "equations"])
@pytest.mark.parametrize("is_first", [True, False])
def test_equal_equations_inside_and_outside_of_a_scope_are_lowered_apart(is_first, hidden):
    """JAX keeps what it lowered; the program was traced before, so that no equation has a tag."""
    traced = jaxpr_as_fun(jax.make_jaxpr(hidden(loss))(X, UPDATES))
    impl.use_deterministic_algorithms(True)

    def both(x, u):
        outside = traced(x, u) if not is_first else None
        with impl.deterministic(False):
            inside = traced(x, u)
        return inside, outside or traced(x, u)

    assert len(races(text(both, X, UPDATES, platform="cuda"))) == 1


def test_warn_only_in_a_scope_warns_and_does_not_raise():
    impl.use_deterministic_algorithms(True, guarantee="portable")
    scope = impl.deterministic(warn_only=True)
    with pytest.warns(UserWarning, match=REFUSED):
        text(scope(refused), MATRIX, X)
    assert not impl.is_deterministic_algorithms_warn_only_enabled()


def test_rules_of_derivatives_have_the_mode_of_the_scope():
    """The rule for the backward pass runs when the scope has ended."""
    seen = []

    def backward(_, cotangent):
        seen.append(impl.are_deterministic_algorithms_enabled())
        return (2 * cotangent,)

    double = jax.custom_vjp(lambda x: 2 * x)
    double.defvjp(lambda x: (2 * x, None), backward)

    def program(x):
        with impl.deterministic(False):
            first = double(x)
        with impl.deterministic():
            second = double(first)
        return double(second).sum()

    for mode in (True, False):
        impl.use_deterministic_algorithms(mode)
        jax.make_jaxpr(jax.grad(program))(X)
    assert seen == [True, True, False, False, True, False]


def test_a_scope_around_a_call_leaves_the_program_as_it_is():
    plain = text(jax.grad(loss), X, UPDATES, platform="cuda")
    impl.use_deterministic_algorithms(True)
    with impl.deterministic(False):
        assert text(jax.grad(loss), X, UPDATES, platform="cuda") == plain
    impl.use_deterministic_algorithms(False)
    assert "samebits" not in plain


def test_a_scope_in_a_program_is_over_when_it_ends():
    """No tag stays in the thread, also where an error ends the scope or JAX's own metadata hold."""
    calls = []

    @jax.jit
    def program(x):
        calls.append(1)
        with set_xla_metadata(own="1"), impl.deterministic(), set_xla_metadata(other="2"):
            first = x * 2
        with pytest.raises(KeyError), impl.deterministic(False):
            raise KeyError
        return first + x

    for _ in range(2):
        program(X)
    operations = program.lower(X).as_text()
    assert len(calls) == 1
    assert [name in operations for name in ("own", "other")] == [True, True]
    assert re.findall(r'stablehlo\.(\w+) .*samebits_mode = "([^"]*)"', operations) == [
        ("multiply", "run_to_run torch-2.12")
    ]
    assert tags.current() is None


def test_scopes_that_end_in_another_order_tag_what_the_last_of_them_says():
    first, second = impl.deterministic(), impl.deterministic(False)

    def program(x, u):
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        raced = loss(x, u)
        first.__enter__()
        second.__exit__(None, None, None)
        ordered = loss(x, u)
        first.__exit__(None, None, None)
        return raced, ordered, loss(x, u)

    assert len(races(text(program, X, UPDATES, platform="cuda"))) == 2


@pytest.mark.once
def test_first_difference_and_recordings_keep_scopes():
    """A schedule changes the bits of a sum that races, and not of a sum that a scope orders."""

    def program(x, u):
        with impl.deterministic():
            ordered = x.at[INDEX].add(u)
        return ordered, jaxpr_as_fun(called)(x, u)

    u = (UPDATES * 10.0 ** RNG.integers(-6, 6, 24)).astype(np.float32)
    called = jax.make_jaxpr(jax.jit(lambda x, u: x.at[INDEX].multiply(u)))(X, u)
    schedules = impl.testing.schedule(1), impl.testing.schedule(2)
    assert "scatter_mul" in str(impl.first_difference(program, X, u, between=schedules))


def add(x, u):
    return x.at[INDEX].add(u)


def assigned(x, u):
    return (x.at[INDEX].set(u) ** 2).sum()


def pool(x, u):
    return lax.reduce_window(x * u[:5], -jnp.inf, lax.max, (3,), (1,), "SAME") @ u[:5]


def segments(u):
    return jax.ops.segment_sum(u, INDEX, 5) * jax.ops.segment_prod(u, INDEX, 5)


PROGRAMS = {
    "add": add,
    "vmap of add": lambda x, u: jax.vmap(add)(jnp.outer(u[:3], x), jnp.outer(u[:3], u)),
    "grad of an assignment": jax.grad(assigned, argnums=(0, 1)),
    "product": lambda x, u: x.at[INDEX].multiply(u),
    "pool": jax.grad(pool),
    "pool twice": jax.grad(lambda x, u: jax.grad(pool)(x, u) @ jnp.cos(x)),
    "vmap of pool": lambda x, u: jax.vmap(jax.grad(pool), (0, None))(jnp.outer(u[:3], x), u),
    "segments": lambda x, u: x * segments(u),
    "histogram": lambda x, u: x * jnp.histogram(u, bins=5, weights=u)[0],
}
#: Programs whose values are compared: with these transformations they end with small numbers.
NAMES = ("jvp", "vmap of grad of jit", "scan", "grad of scan", "grad of cond", "remat")
ALL = {name: TRANSFORMED[name](loss) for name in NAMES} | PROGRAMS


def all_of_them(x, u):
    return {name: function(x, u) for name, function in ALL.items()}


def test_nothing_races_on_a_gpu():
    def program(x, u):
        return [function(x, u) for function in PROGRAMS.values()]

    racing = races(text(program, X, UPDATES, platform="cuda"))
    assert len(racing) >= len(PROGRAMS)
    assert {compared(f) for f in impl.audit(program)(X, UPDATES).select("varies")} == set(racing)
    with impl.deterministic():
        assert not races(text(program, X, UPDATES, platform="cuda"))


def test_values_agree_and_bits_do_not_depend_on_the_schedule():
    program = jax.jit(all_of_them, compiler_options=OPTIONS)
    plain = program(X, UPDATES)
    seed = impl.testing.Seed()
    with impl.deterministic(), impl.testing.emulate("cuda", lowering="xla", seed=seed):
        runs = [jax.block_until_ready(program(X, UPDATES)) for seed.value in range(4)]
    for name, expected in plain.items():
        for got, wanted in zip(*map(jax.tree.leaves, (runs[0][name], expected)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=name)
        for run in runs:
            assert_all_same_bits(*map(jax.tree.leaves, (run[name], runs[0][name])), name)


def _bytes(tree):
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree))


MESH = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
CALLS = {
    "eager": lambda x, u: add(jnp.asarray(x), u),
    "ahead of time": lambda x, u: jax.jit(add).lower(x, u).compile()(x, u),
    "donated": lambda x, u: jax.jit(add, donate_argnums=0)(x + 0, u),
    "mapped": lambda x, u: jax.pmap(add, in_axes=(None, 0))(x, u[None])[0],
    "in shard_map": jax.jit(jax.shard_map(add, mesh=MESH, in_specs=jax.P(), out_specs=jax.P())),
    "pulled back": lambda x, u: jax.vjp(lambda x: x[INDEX], x)[1](u)[0] + x,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_a_program_goes_by_the_mode(name):
    seed = impl.testing.Seed()
    seen = {False: set(), True: set()}
    for mode in (False, True, False):
        with impl.deterministic(mode), impl.testing.emulate("cuda", lowering="xla", seed=seed):
            for seed.value in range(4):
                seen[mode].add(_bytes(CALLS[name](X, UPDATES)))
    assert len(seen[True]) == 1 < len(seen[False])


def test_an_exported_program_has_no_kernel():
    program = jax.jit(lambda x, u: x.at[INDEX].add(u))
    # A program for no known GPU has no kernel anyway.
    gpu = jax.sharding.use_abstract_mesh(impl.testing._mesh("NVIDIA H200"))
    with impl.deterministic(profile="complete"), gpu:
        exported = jax.export.export(program, platforms=("cpu", "cuda"))(X, UPDATES)
        assert_all_same_bits([exported.call(X, UPDATES)], [program(X, UPDATES)])


def test_an_exported_program_takes_the_path_of_each_platform():
    platforms = ("cpu", "cuda")
    program = jax.jit(lambda x, u: (jax.grad(pool)(x, u), x.at[INDEX].set(u)))
    plain = jax.export.export(program, platforms=platforms)(X, UPDATES)
    assert races(plain.mlir_module())
    with impl.deterministic():
        exported = jax.export.export(program, platforms=platforms)(X, UPDATES)
        for_gpu = jax.export.export(program, platforms=["cuda"])(X, UPDATES)
        # With ``lowering="xla"``, every platform gets the path of the GPU.
        with impl.testing.emulate("cuda", lowering="xla"):
            stood_in = jax.export.export(program, platforms=platforms)(X, UPDATES)
    assert exported.platforms == platforms
    assert_all_same_bits([exported.call(X, UPDATES)], [program(X, UPDATES)])
    assert races(exported.mlir_module()), "The part for a CPU has the scatters of XLA."
    cases = [module.mlir_module().count("stablehlo.case") for module in (exported, plain)]
    assert cases[0] > cases[1], "The parts of the platforms are apart."
    assert not races(for_gpu.mlir_module())
    assert not races(stood_in.mlir_module())
