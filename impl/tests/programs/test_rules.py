"""The rules for JAX's own primitives: which text they lower, when they hold, what they refuse."""

import os
import re
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import impl
from impl._core import jax_internals, native_scatter
from impl.programs import _rules

X = jnp.zeros(5)
INDEX = jnp.array([1, 1, 3, 9])
UPDATES = jnp.array([1.0, 2, 3, 4])
POOLS = [(2, 1), (3, 2)]


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
    y = add(x) + assign(x) + multiply(x) + x.at[INDEX].subtract(UPDATES)
    return jax.grad(pool)(y) + jax.grad(lambda x: x[INDEX].sum())(y)


def text(function, *args, platform="cpu", debug=False):
    return impl.testing.lower(function, *args, platform=platform).as_text(debug_info=debug)


def races(text):
    """Returns the scatters of a text whose result can depend on the order of their updates."""
    found = re.findall(r'"stablehlo\.(?:select_and_)?scatter".*?\}\) :', text, re.DOTALL)
    return [
        scatter
        for scatter in found
        if "unique_indices = true" not in scatter
        and not re.search(r"stablehlo\.(add|maximum|minimum|multiply) .*tensor<u?i\d+>", scatter)
    ]


def jaxs_own(function, *args, platform):
    """Returns the text of a function as a JAX without the rules lowers it."""
    now = {p: _rules_of(p) for p in native_scatter.replaced_primitives()}
    jax.clear_caches()
    try:
        for primitive in now:
            _set(primitive, _rules_of(native_scatter.twins[primitive]))
        return text(function, *args, platform=platform)
    finally:
        for primitive, rules in now.items():
            _set(primitive, rules)
        jax.clear_caches()


def _rules_of(primitive):
    return jax_internals.lowering_rules(primitive)


def _set(primitive, rules):
    for platform, (rule, inline) in rules.items():
        mlir.register_lowering(primitive, rule, platform=platform, inline=inline)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_with_the_mode_off_the_text_is_that_of_jax(platform):
    def own(x):
        return everything(x)

    expected = jaxs_own(everything, X, platform=platform)
    assert text(everything, X, platform=platform) == expected
    assert "stablehlo.scatter" in expected or platform == "cpu"
    with impl.deterministic():
        assert text(everything, X, platform=platform) != expected


def test_with_the_mode_on_nothing_races_on_a_gpu():
    assert races(text(everything, X, platform="cuda"))
    with impl.deterministic():
        assert not races(text(everything, X, platform="cuda"))


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
    if name in ("one update", "unique"):
        assert "unique_indices = true" in lowered


def test_the_mode_counts_that_holds_when_a_program_is_compiled():
    jitted = jax.jit(add)
    compiled = jitted.lower(X)
    with impl.deterministic():
        ordered = jitted.lower(X)
        assert "unique" in ordered.as_text()
        assert ordered.as_text() != compiled.as_text()
        with impl.deterministic(False):
            assert jitted.lower(X).as_text() == compiled.as_text()
    assert jitted.lower(X).as_text() == compiled.as_text()


def test_a_product_of_complex_numbers_is_refused_by_name():
    x = X.astype(complex)
    refused = r"lax\.scatter_mul has no deterministic .*\(row R0\d+\).*logarithms.*warn_only"
    with impl.deterministic(), pytest.raises(RuntimeError, match=refused):
        jax.jit(multiply)(x)
    with impl.deterministic(warn_only=True), pytest.warns(UserWarning, match=refused):
        jax.jit(multiply).lower(x)


def test_sizes_that_are_unknown_are_refused_by_name():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n,), jnp.float32)
    index = jax.ShapeDtypeStruct((n,), jnp.int32)
    program = jax.jit(lambda x, i, u: x.at[i].add(u))
    assert jax.export.export(program)(shape, index, shape)
    with impl.deterministic(), pytest.raises(RuntimeError, match=r"scatter_add .* known sizes"):
        jax.export.export(program)(shape, index, shape)
    with impl.deterministic():
        jax.export.export(jax.jit(lambda x: x.at[0].add(1.0)))(shape)


def test_sizes_beyond_32_bits_are_refused_by_name():
    large = jax.ShapeDtypeStruct((2**31 + 8,), jnp.float16)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    index, updates = jnp.zeros((3, 1), jnp.uint32), jnp.ones(3, jnp.float16)
    program = jax.jit(lambda x, i, u: lax.scatter_add(x, i, u, numbers))
    assert program.lower(large, index, updates)
    refused = r"scatter_add .* 2\^31"
    with impl.deterministic(), pytest.raises(RuntimeError, match=refused):
        program.lower(large, index, updates)
    with impl.deterministic(warn_only=True), pytest.warns(UserWarning, match=refused):
        program.lower(large, index, updates)


def test_random_keys_are_assigned_in_order():
    keys = jax.random.split(jax.random.key(0), 5)

    def program(keys):
        return jax.random.key_data(keys.at[jnp.array([1, 1, 3])].set(keys[:3]))

    expected = jax.jit(program)(keys)
    with impl.deterministic():
        lowered = text(program, keys, platform="cuda")
        np.testing.assert_array_equal(jax.jit(program)(keys), expected)
    assert not races(lowered)


def test_the_rules_can_be_turned_off():
    off = text(add, X, platform="cuda")
    impl.programs.disable()
    try:
        assert not impl.programs.are_enabled()
        with impl.deterministic():
            assert text(add, X, platform="cuda") == off
    finally:
        impl.programs.enable()
    assert impl.programs.are_enabled()
    with impl.deterministic():
        assert text(add, X, platform="cuda") != off


FRESH = """
import warnings, jax, jax.numpy as jnp
from jax.interpreters import mlir
{before}
import impl
assert impl.programs.are_enabled() is {enabled}
with impl.deterministic():
    text = impl.testing.lower(lambda x, i: x.at[i].add(1.), jnp.ones(3), jnp.arange(3)).as_text()
    ours = impl.testing.lower(lambda x, i: impl.index_add(x, 0, i, x), jnp.ones(3), jnp.arange(3))
assert ("stablehlo.scatter" in text) is not {enabled}
assert "stablehlo.scatter" not in ours.as_text()
try:
    impl.programs.enable()
except RuntimeError as error:
    assert "SAMEBITS_PROGRAMS=0" in str(error)
"""


@pytest.mark.parametrize("case", ["variable", "release"])
def test_without_rules_everything_else_works(case):
    before = "" if case == "variable" else "del mlir._platform_specific_lowerings"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if case == "variable":
        environment["SAMEBITS_PROGRAMS"] = "0"
    code = FRESH.format(before=before, enabled=False)
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("JAX's own scatters can differ" in done.stderr) is (case == "release")


def test_a_release_without_a_rule_is_told_loudly(monkeypatch):
    def none(primitive):
        raise LookupError(f"JAX has no lowering rule of {primitive}")

    monkeypatch.setattr(_rules.jax_internals, "lowering_rules", none)
    with pytest.warns(
        RuntimeWarning, match="JAX has no lowering rule of scatter. The mode therefore"
    ):
        _rules.register()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert impl.programs.are_enabled()
