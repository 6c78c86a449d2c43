"""Properties that the pooling ops share, tested for each op; ``every_op`` transforms them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal
from impl.tests.support.bits import assert_same_bits

F = impl.nn.functional
INF = float("inf")
pytestmark = pytest.mark.usefixtures("complete")

#: Random samples that float16 and bfloat16 hold exactly.
SAMPLES = (np.random.default_rng(0).integers(0, 64, (1, 2, 2)) / 64).astype(np.float32)
#: Calls for an input of shape [2, 6, 6], whose windows overlap.
NARROW = {
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (4, 7)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    "avg_pool2d": lambda x: F.avg_pool2d(x, (3, 4), 2, 1, False, False),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x, 3, (4, 3), _random_samples=SAMPLES.astype(x.dtype)
    ),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, (3, 2), 1),
    "lp_pool2d-infinite": lambda x: F.lp_pool2d(x, INF, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, (3, 2), 1, 1),
}


@pytest.mark.parametrize("op", NARROW)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(op):
    @jax.jit
    def run(x, cotangent):
        out, pullback = jax.vjp(NARROW[op], x)
        return out, pullback(cotangent)[0]

    # Squares of the elements exceed the largest float16.
    x = normal((2, 6, 6)) * 300
    cotangent = normal(jax.eval_shape(NARROW[op], x).shape, 1)
    for dtype in (np.float16, jnp.bfloat16):
        narrow = x.astype(dtype), cotangent.astype(dtype)
        wide = run(*(array.astype(np.float32) for array in narrow))
        for got, want in zip(run(*narrow), wide, strict=True):
            assert_same_bits(got, np.asarray(want).astype(dtype))


#: For each op, a call and the name in the message of its gradient.
REFUSED = {
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), "adaptive_max_pool2d_"),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), "avg_pool3d_"),
    "fractional_max_pool3d": (
        lambda x: F.fractional_max_pool3d(x, 2, 2, key=jax.random.key(0)),
        "fractional_max_pool3d_",
    ),
    "max_pool3d": (
        lambda x: F.max_pool3d(x, 2, return_indices=True)[0],
        "max_pool3d_with_indices_",
    ),
}


@pytest.mark.parametrize("op", REFUSED)
def test_the_gradient_raises_and_the_forward_pass_does_not(op):
    call, caller = REFUSED[op]
    x = jnp.ones((1, 4, 4, 4))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        jax.jit(call).lower(x)
        with pytest.raises(RuntimeError, match=f"^{caller}backward_cuda does not"):
            jax.jit(jax.grad(lambda x: call(x).sum())).lower(x)


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
