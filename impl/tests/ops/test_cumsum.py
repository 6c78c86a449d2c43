"""cumsum, and blocked order with it; test_cumulative.py tests it with its relatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.numbers import spread
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
