"""The arguments of dropout, and what it drops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.nn import _dropout


@pytest.mark.parametrize("value", [0, 0.25, 1, np.float32(0.5)])
def test_a_share_is_a_number_in_the_unit_interval(value):
    assert _dropout.share_of("op", "p", value) == float(value)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_another_number_is_no_share(value):
    with pytest.raises(RuntimeError, match=r"op\(\): dropout .* between 0 and 1, but got"):
        _dropout.share_of("op", "p", value)


@pytest.mark.parametrize("value", [True, None, "0.5"])
def test_a_share_of_another_type(value):
    with pytest.raises(TypeError, match=r"op\(\): argument 'p' must be float, not"):
        _dropout.share_of("op", "p", value)


def test_keys():
    _dropout.check_key("op", "key", jax.random.key(0))
    _dropout.check_key("op", "key", jax.random.PRNGKey(0))
    for wrong in (0, np.zeros(2, np.float32)):
        with pytest.raises(TypeError, match=r"op\(\): argument 'key' must be a JAX key"):
            _dropout.check_key("op", "key", wrong)


def test_the_others_are_scaled():
    x = jnp.ones(1000)
    out = np.asarray(_dropout.dropped(x, jax.random.key(0), 0.5))
    assert set(out.tolist()) == {0.0, 2.0}
    assert not np.any(_dropout.dropped(x, jax.random.key(0), 1.0))
