"""Plain programs under every transformation of JAX: with the mode on, no equation races.

The audit finds the races that there are with the mode off.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl.tests.programs.test_scopes_in_programs import INDEX, TRANSFORMED, UPDATES, X, loss
from impl.tests.programs.texts import OPTIONS, compared, races, text
from impl.tests.support.bits import assert_all_same_bits


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
NAMES = (
    *("jit", "grad of inner jit", "jvp", "hessian", "vmap", "vmap of grad of jit", "scan"),
    *("grad of scan", "grad of cond", "remat", "custom_vjp", "fori_loop"),
)
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
        runs = []
        for seed.value in range(4):
            runs.append(jax.block_until_ready(program(X, UPDATES)))
    for name, expected in plain.items():
        assert_near(runs[0][name], expected, name)
        for run in runs:
            assert_all_same_bits(*map(jax.tree.leaves, (run[name], runs[0][name])), name)
    with impl.testing.emulate("cuda", lowering="xla", seed=seed):
        raced = [jax.block_until_ready(program(X, UPDATES)) for seed.value in range(4)]
    varied = {n for n in plain if len({_bytes(run[n]) for run in raced}) > 1}
    # The sums of the other programs have two or three terms, or their order cancels.
    assert varied >= {"add", "vmap of add", "remat", "scan", "grad of scan", "segments"}


def assert_near(tree, expected, name):
    for got, wanted in zip(*map(jax.tree.leaves, (tree, expected)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


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


def test_a_function_jitted_with_the_mode_off_goes_by_the_mode_later():
    indices, updates = np.zeros(3000, np.int32), np.linspace(0.1, 1, 3000).astype(np.float32)
    jitted = jax.jit(lambda x: x.at[indices].add(updates))
    plain = jitted(X)
    with impl.deterministic():
        assert jitted(X)[0] == plain[0]
        with impl.testing.emulate("cuda", lowering="native"):
            ordered = jitted(X)
    # The sequence of a GPU is another one than XLA's on a CPU.
    assert plain[0] != ordered[0]
    assert jitted(X)[0] == plain[0]


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
