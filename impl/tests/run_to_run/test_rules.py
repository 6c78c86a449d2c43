"""The rules for JAX's own primitives: which text they lower, when they hold, what they refuse.

Tests: impl._core.ordered_primitives, impl.programs.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._run_to_run import rules
from impl.tests.programs.texts import races, text
from impl.tests.support import processes

X = jnp.zeros(5)
INDEX = jnp.array([1, 1, 3, 9])
UPDATES = jnp.array([1.0, 2, 3, 4])


def add(x):
    return x.at[INDEX].add(UPDATES)


def assign(x):
    return x.at[INDEX].set(UPDATES)


def multiply(x):
    return x.at[INDEX].multiply(UPDATES)


def pool(x):
    windows = lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME")
    return windows.sum()


def everything(x):
    y = add(x) + assign(x) + multiply(x) + x.at[INDEX].subtract(UPDATES) + x.at[INDEX[:1]].add(1.0)
    return jax.grad(pool)(y) + jax.grad(lambda x: x[INDEX].sum())(y)


#: Lowers programs with every primitive that has a rule before the import of impl, and after it.
TEXTS = """
import jax, jax.numpy as jnp
from jax import lax
def windows(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3, 1)[:x.ndim], (1, 1)[:x.ndim], "SAME")
def program(x, i, u):
    y = x.at[i].add(u) + x.at[i].set(u) + x.at[i].multiply(u) + x.at[i].subtract(u)
    return (y * windows(x) * x[i].sum() * x.at[i].max(u)).sum()
def backward(x, i, u):
    def loss(x):
        return jnp.prod(x[i]) + (windows(x) ** 2).sum() + (x.at[i].set(u) ** 2).sum()
    return jax.grad(loss)(x)
def texts():
    jax.clear_caches()
    for x in (jnp.zeros(5), jnp.zeros((2, 5))):
        i, u = jnp.arange(4, dtype=jnp.int32) % x.shape[0], jnp.ones((4, *x.shape[1:]))
        for function in (program, jax.vmap(program, (1, None, 1)), backward):
            if function is program or x.ndim == 2:
                for platform in ("cpu", "tpu", "rocm"):  # On CUDA, kernels replace loops.
                    lowered = jax.jit(function).trace(x, i, u).lower(lowering_platforms=(platform,))
                    yield lowered.as_text(debug_info=True)
sides = []
for has_rules in (False, True):
    if has_rules:
        import impl
    sides.append("".join(texts()))  # In one line, since texts name it.
assert sides[0] == sides[1]
assert sides[0].count('"stablehlo.scatter"') > 20 and "select_and_scatter" in sides[0]
"""


def test_with_the_mode_off_the_text_is_that_of_jax():
    done = processes.run("-c", TEXTS, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr


def test_with_the_mode_on_the_text_is_another_where_scatters_race():
    for platform, races_there in (("cuda", True), ("rocm", True), ("tpu", True), ("cpu", False)):
        plain = text(everything, X, platform=platform)
        with impl.deterministic():
            assert (text(everything, X, platform=platform) != plain) is races_there
        assert text(everything, X, platform=platform) == plain


def test_a_stand_in_takes_the_path_of_the_device_that_it_stands_in_for():
    plain = text(everything, X)
    for platform, differs in (("cuda", True), ("cpu", False)):
        with impl.deterministic(), impl.testing.emulate(platform, lowering="native"):
            assert (text(everything, X) != plain) is differs


def test_a_cpu_keeps_to_an_order_for_every_device_if_that_is_asked_for():
    for function in (assign, multiply):
        plain = text(function, X)
        with impl.deterministic(guarantee="portable"):
            assert text(function, X) != plain


SAFE = {
    "one update": lambda x: x.at[2].add(1.0),
    "unique": lambda x: x.at[INDEX].add(UPDATES, unique_indices=True),
    "integers": lambda x: x.astype(int).at[INDEX].add(1),
    "a function": lambda x: x.at[INDEX].apply(jnp.sin),
    "extremes": lambda x: x.at[INDEX].max(UPDATES),
}


@pytest.mark.parametrize("name", SAFE)
def test_what_is_safe_is_left_to_xla(name):
    with impl.deterministic():
        lowered = text(SAFE[name], X, platform="cuda")
    assert "stablehlo.scatter" in lowered
    assert ("unique_indices = true" in lowered) is (name in ("one update", "unique"))


def test_a_product_of_complex_numbers_is_refused_by_name():
    x = X.astype(complex)
    program = jax.jit(multiply)
    refused = r"lax\.scatter_mul has no deterministic .*\(row R0\d+\).*logarithms.*warn_only"
    with impl.deterministic(), pytest.raises(RuntimeError, match=refused):
        impl.testing.lower(program, x)
    with impl.deterministic(warn_only=True), pytest.warns(UserWarning, match=refused):
        impl.testing.lower(program, x)
    with impl.deterministic():
        assert program.lower(x), "A CPU computes it as it always does."


#: The platforms that an exported program may run on.
SOME_GPU = [["cuda"], ["cpu", "cuda"]]


@pytest.mark.parametrize("platforms", SOME_GPU)
def test_sizes_that_are_unknown_are_refused_by_name(platforms):
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n,), jnp.float32)
    index = jax.ShapeDtypeStruct((n,), jnp.int32)
    program = jax.jit(lambda x, i, u: x.at[i].add(u))
    assert jax.export.export(program, platforms=platforms)(shape, index, shape)
    with impl.deterministic(), pytest.raises(RuntimeError, match=r"scatter_add .* known sizes"):
        jax.export.export(program, platforms=platforms)(shape, index, shape)
    with impl.deterministic():
        jax.export.export(jax.jit(lambda x: x.at[0].add(1.0)), platforms=platforms)(shape)
        jax.export.export(program, platforms=["cpu"])(shape, index, shape)


def test_a_pool_of_unknown_size_is_refused_by_name():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n, 8), jnp.float32)

    def gradient(window, platform):
        def pooled(x):
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, window), (1, 2), "VALID").sum()

        return jax.export.export(jax.jit(jax.grad(pooled)), platforms=[platform])(shape)

    assert gradient(3, "cuda")
    with impl.deterministic(), pytest.raises(RuntimeError, match=r"select_and.* known sizes"):
        gradient(3, "cuda")
    with impl.deterministic():
        assert gradient(2, "cuda"), "Windows that do not overlap need no order."
        assert gradient(3, "cpu")


def test_sizes_beyond_32_bits_are_refused_by_name():
    large = jax.ShapeDtypeStruct((2**31 + 8,), jnp.float16)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    index, updates = jnp.zeros((3, 1), jnp.uint32), jnp.ones(3, jnp.float16)
    program = jax.jit(lambda x, i, u: lax.scatter_add(x, i, u, numbers))
    assert program.lower(large, index, updates)
    refused = r"scatter_add .* 2\^31"
    with impl.deterministic(), pytest.raises(RuntimeError, match=refused):
        impl.testing.lower(program, large, index, updates)
    with impl.deterministic(warn_only=True), pytest.warns(UserWarning, match=refused):
        impl.testing.lower(program, large, index, updates)
    with impl.deterministic():
        assert program.lower(large, index, updates)


def test_random_keys_are_assigned_in_order():
    keys = jax.random.split(jax.random.key(0), 5)

    def program(keys):
        return jax.random.key_data(keys.at[jnp.array([1, 1, 3])].set(keys[:3]))

    expected = jax.jit(program)(keys)
    with impl.deterministic():
        lowered = text(program, keys, platform="cuda")
        with impl.testing.emulate("cuda", lowering="native"):
            np.testing.assert_array_equal(jax.jit(program)(keys), expected)
    assert not races(lowered)


def test_the_rules_can_be_turned_off():
    off = text(add, X, platform="rocm")
    impl.programs.disable()
    try:
        assert not impl.programs.are_enabled()
        with impl.deterministic():
            assert text(add, X, platform="rocm") == off
    finally:
        impl.programs.enable()
    assert impl.programs.are_enabled()
    with impl.deterministic():
        assert text(add, X, platform="rocm") != off


FRESH = """
import jax, jax.numpy as jnp
from jax._src.interpreters import mlir
{before}
import impl
from impl.tests.support.programs import scatters_floats
assert not impl.programs.are_enabled()
with impl.deterministic():
    text = impl.testing.lower(lambda x, i: x.at[i].add(1.), jnp.ones(3), jnp.arange(3)).as_text()
    try:
        impl.testing.lower(lambda x, i: impl.index_add(x, 0, i, x), jnp.ones(3), jnp.arange(3))
    except RuntimeError as error:
        assert "index_add has no deterministic implementation" in str(error)
    else:
        raise AssertionError("an op that races gave no alert")
assert scatters_floats(text)
try:
    impl.programs.enable()
except RuntimeError as error:
    assert "SAMEBITS_PROGRAMS=0" in str(error)
"""

OTHER_RELEASE = "find = mlir._get_lowering_rules; mlir._get_lowering_rules = lambda *a: find(*a)"


@pytest.mark.parametrize(
    ("before", "variables"), [("", {"SAMEBITS_PROGRAMS": "0"}), (OTHER_RELEASE, {})]
)
def test_without_rules_everything_else_works(before, variables):
    program = FRESH.format(before=before)
    done = processes.run("-W", "always", "-c", program, JAX_PLATFORMS="cpu", **variables)
    assert done.returncode == 0, done.stderr
    assert ("JAX's own scatters can differ" in done.stderr) is (not variables)


def test_a_release_without_a_rule_is_told_loudly(monkeypatch):
    monkeypatch.setattr(rules.rules.private_mlir, "_get_lowering_rules", lambda ctx: ctx)
    with pytest.warns(RuntimeWarning, match="finds lowering rules in another way.*The mode there"):
        rules.register()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert impl.programs.are_enabled()
