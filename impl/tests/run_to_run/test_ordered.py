"""JAX's own scatters and pools on a GPU: values of JAX, fixed orders with the mode on, schedules.

Tests: impl._run_to_run.ordered.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._run_to_run import ordered
from impl.tests.programs.texts import OPTIONS
from impl.tests.run_to_run.drawn_scatters import draw

KINDS = [
    ("scatter_add", "float32"),
    ("scatter_add", "bfloat16"),
    ("scatter_add", "complex64"),
    ("scatter_add", "int8"),
    ("scatter_sub", "float16"),
    ("scatter_mul", "float32"),
    ("scatter", "float32"),
    ("scatter", "bool"),
    ("scatter", "complex64"),
    ("scatter_max", "float32"),
]


#: On a CPU these are computed in the spec's order under the guarantee ``portable``.
ON_A_CPU = [kind for kind in KINDS if kind[0] in ("scatter_mul", "scatter")]


@pytest.mark.parametrize(("lowering", "kinds"), [("native", ON_A_CPU), ("xla", KINDS)])
def test_a_scatter_of_any_form_has_the_values_of_jax(rng, lowering, kinds):
    drawn = [draw(rng, dtype, name) for name, dtype in kinds for _ in range(3)]

    def program(operands):
        return [case(*arrays) for case, arrays in zip(drawn, operands, strict=True)]

    operands = [(case.operand, case.indices, case.updates) for case in drawn]
    jitted = jax.jit(program, compiler_options=OPTIONS)
    expected = jitted(operands)
    with impl.deterministic(), impl.testing.emulate("cuda", lowering=lowering):
        actual = jitted(operands)
    for case, wanted, got in zip(drawn, expected, actual, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted), str(case))


WINDOWS = [((2, 3), (1, 2)), ((3, 3), (2, 2)), ((2, 2), (1, 1)), ((2, 2), (2, 2))]


def gradient(x, w, dims, strides, padding, extreme):
    initial = -jnp.inf if extreme is lax.max else jnp.inf

    def pool(x):
        return (lax.reduce_window(x, initial, extreme, dims, strides, padding) * w).sum()

    return jax.grad(pool)(x)


@pytest.mark.parametrize(("dtype", "unrolled"), [("float32", 64), ("bfloat16", 0)])
def test_it_has_the_values_of_jax(monkeypatch, rng, dtype, unrolled):
    monkeypatch.setattr(ordered, "UNROLLED", unrolled)
    extremes = itertools.cycle([lax.max, lax.min, lax.min, lax.max])
    cases = list(zip(itertools.product(WINDOWS, ["SAME", "VALID"]), extremes, strict=False))
    # There are ties, infinities that padding might win against, and sums that are exact.
    x = jnp.asarray(rng.choice([-np.inf, -1, 0, 1, np.inf], (7, 6)), dtype)

    def program(x):
        out = []
        for ((dims, strides), padding), extreme in cases:
            pooled = lax.reduce_window(x, 0.0, lax.add, dims, strides, padding)
            w = jnp.arange(pooled.size, dtype=x.dtype).reshape(pooled.shape) % 4
            out.append(gradient(x, w, dims, strides, padding, extreme))
        return out

    jitted = jax.jit(program, compiler_options=OPTIONS)
    expected = jitted(x)
    with impl.deterministic(), impl.testing.emulate("cuda", lowering="native"):
        actual = jitted(x)
    for case, wanted, got in zip(cases, expected, actual, strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted), str(case))


@pytest.mark.parametrize("unrolled", [64, 0])
def test_each_element_adds_its_windows_in_ascending_order(monkeypatch, unrolled):
    x = jnp.array([0.0, 0, 9, 0, 0])
    cotangent = jnp.array([1.0, 1e8, -1e8])
    monkeypatch.setattr(ordered, "UNROLLED", unrolled)
    with impl.deterministic(), impl.testing.emulate("cuda", lowering="native"):
        out = jax.jit(lambda x: gradient(x, cotangent, (3,), (1,), "VALID", lax.max))(x)
    assert out.tolist() == [0, 0, (np.float32(1) + np.float32(1e8)) + np.float32(-1e8), 0, 0]
    with impl.deterministic(), impl.testing.emulate("cuda", lowering="native"):
        out = jax.jit(lambda x: gradient(x, cotangent[::-1], (3,), (1,), "VALID", lax.max))(x)
    assert out[2] == 1


def test_a_window_of_hundreds_of_elements_has_a_short_program():
    x = jax.ShapeDtypeStruct((32, 32), "float32")
    with impl.deterministic(), impl.testing.emulate("cuda", lowering="native"):
        lowered = jax.jit(lambda x: gradient(x, 1.0, (20, 20), (1, 1), "SAME", lax.max)).lower(x)
    assert lowered.as_text().count("\n") < 1000


SIZES = (1.0, 1e8, -1e8, 3.0, 1e-3, 7.0)


def scatter(x):
    return x.at[jnp.array([0, 0, 0, 0, 1, 1])].add(jnp.array(SIZES))


def assign(x):
    return x.at[jnp.array([[0], [0], [0], [1]])].set(jnp.arange(4.0)[:, None])


def pool(x):
    w = jnp.array(SIZES[:4])
    x = x.at[3].set(5.0)
    return jax.grad(
        lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (4,), (1,), "VALID") * w).sum()
    )(x)


@pytest.mark.parametrize("function", [scatter, assign, pool])
@pytest.mark.parametrize("mode", [False, True])
def test_bits_change_with_the_schedule_unless_the_mode_is_on(function, mode):
    x = jnp.zeros(7)
    plain = jax.jit(function)(x).tobytes() if mode is False else None
    seed = impl.testing.Seed()
    jitted = jax.jit(functools.partial(function))
    seen = []
    with impl.deterministic(mode), impl.testing.emulate("cuda", lowering="xla", seed=seed):
        for seed.value in range(6):
            seen.append(np.asarray(jitted(x)).tobytes())
        assert jitted._cache_size() == 1
    assert (len(set(seen)) > 1) is not mode
    if not mode and function is not pool:
        assert seen[0] == np.frombuffer(plain, np.float32).tobytes()
