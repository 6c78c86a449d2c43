"""The gradient of a max pool of JAX, with the mode on."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._run_to_run import ordered
from impl.tests.programs.texts import OPTIONS

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
