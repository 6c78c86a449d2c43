"""cumsum, and blocked order with it; test_cumulative.py tests it with its relatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.numbers import small, spread
from impl.tests.support.programs import run_together
from impl.tests.support.references import along
from spec import oracles

complete = pytest.mark.usefixtures("complete")


@complete
def test_bits(lowering, rng):
    # Around blocks of 16 and of 256: at them, above them, and several.
    calls, wanted = {}, {}
    for count in (16, 17, 256, 257, 3000) if lowering == "native" else (256, 3000):
        values = spread(rng, (2, count, 3))
        values[:, :2] = -0.0
        calls[f"{count}"] = lambda x: impl.cumsum(x, 1), values
        wanted[f"{count}"] = along(oracles.blocked_scan, values, 1)
    for dtype in (np.float16, jnp.bfloat16, np.complex64):
        values = spread(rng, 1100, dtype)
        calls[dtype.__name__] = lambda x: impl.cumsum(x, 0), values
        wanted[dtype.__name__] = oracles.blocked_scan(values)
    weight = spread(rng, (1030, 2))
    gradient = lambda x, w: jax.vjp(lambda x: impl.cumsum(x, 0), x)[1](w)[0]  # noqa: E731
    calls["gradient"] = gradient, np.zeros_like(weight), weight
    wanted["gradient"] = oracles.blocked_scan(weight[::-1])[::-1]
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


def test_the_order_is_not_that_of_others():
    values = spread(np.random.default_rng(0), 1100)
    want = oracles.blocked_scan(values)
    assert bits(want) != bits(np.cumsum(values))


def test_the_mode_off_is_right_for_exact_numbers_under_any_schedule():
    steps = np.random.default_rng(0).integers(-9, 9, 2500).astype(np.float32)
    with impl.deterministic(False), impl.testing.schedule(3):
        assert_same_bits(impl.cumsum(steps, 0), np.cumsum(steps))


@complete
def test_dtypes():
    calls, wanted = {}, {}
    for dtype in [np.float16, jnp.bfloat16, np.int8, np.int32, np.uint32, np.complex64]:
        values = small((4, 2), dtype, 1, 4)
        wide = np.complex128 if dtype is np.complex64 else np.float64
        name = f"{dtype.__name__} as itself"
        calls[name] = lambda x, dtype=dtype: impl.cumsum(x, 0, dtype=dtype), values
        wanted[name] = np.cumsum(values.astype(wide), 0).astype(dtype)
    defaults = {np.float16: np.float16, jnp.bfloat16: jnp.bfloat16}
    defaults |= dict.fromkeys([np.int8, bool, np.uint8], np.int32)
    for dtype, out in defaults.items():
        name = f"{dtype.__name__} by default"
        calls[name] = lambda x: impl.cumsum(x, 0), np.ones(300, dtype)
        wanted[name] = np.arange(1, 301).astype(out)
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)
    got = impl.cumsum(np.array([2**31 - 1, 1], np.int32), 0, dtype=np.int32)
    assert got.tolist() == [2**31 - 1, -(2**31)]


@complete
def test_x64():
    with jax.enable_x64(True):
        assert impl.cumsum(np.array([2**31 - 1, 1], np.int32), 0).tolist() == [2**31 - 1, 2**31]


@complete
def test_the_gradient_of_an_empty_array():
    gradient = jax.grad(lambda x: impl.cumsum(x[:0], 0).sum())(jnp.ones((3, 2)))
    assert gradient.tolist() == np.zeros((3, 2)).tolist()
