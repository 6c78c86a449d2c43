"""Properties that the pooling ops share, tested for each op; ``every_op`` transforms them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits

F = impl.nn.functional
INF = float("inf")
pytestmark = pytest.mark.usefixtures("complete")

#: Op, call, shape of the input, shape of the result; one of both is empty.
EMPTY = [
    ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 0), (2, 3, 6), (2, 3, 0)),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (0, None)), (3, 6, 5), (3, 0, 5)),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (2, 0, 6, 5), (2, 0, 2, 3)),
    (
        "adaptive_avg_pool3d",
        lambda x: F.adaptive_avg_pool3d(x, 2),
        (0, 3, 6, 5, 4),
        (0, 3, 2, 2, 2),
    ),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (0, 3)), (2, 3, 5, 4), (2, 3, 0, 3)),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), (0, 3, 5, 4), (0, 3, 2, 2)),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2), (0, 5, 4), (0, 2, 2)),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 2), (0, 3, 4, 5), (0, 3, 2, 2)),
    (
        "fractional_max_pool2d",
        lambda x: F.fractional_max_pool2d(x, 2, (3, 0), key=jax.random.key(0)),
        (2, 3, 5, 4),
        (2, 3, 3, 0),
    ),
    (
        "fractional_max_pool2d",
        lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.1, 0.5), key=jax.random.key(0)),
        (2, 3, 5, 4),
        (2, 3, 0, 2),
    ),
    (
        "fractional_max_pool2d",
        lambda x: F.fractional_max_pool2d(x, 2, 2, key=jax.random.key(0)),
        (0, 3, 5, 4),
        (0, 3, 2, 2),
    ),
    (
        "fractional_max_pool2d",
        lambda x: F.fractional_max_pool2d(x, 2, 2, key=jax.random.key(0)),
        (0, 5, 4),
        (0, 2, 2),
    ),
    ("lp_pool1d", lambda x: F.lp_pool1d(x, 2, 2), (0, 3, 6), (0, 3, 3)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), (0, 3, 4, 5), (0, 3, 2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "shape", "result"),
    [case[1:] for case in EMPTY],
    ids=[f"{op}-{shape}-{result}" for op, _, shape, result in EMPTY],
)
def test_empty_inputs_and_results(call, shape, result):
    @jax.jit
    def run(x):
        return call(x), jax.grad(lambda x: call(x).sum())(x)

    out, gradient = run(jnp.ones(shape))
    assert out.shape == result
    assert_same_bits(gradient, np.zeros(shape, np.float32))
