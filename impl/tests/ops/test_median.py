"""median and nanmedian alone; test_selection.py tests them with their relatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.testing import lower
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.programs import kernels, run_together

complete = pytest.mark.usefixtures("complete")


def test_the_median_of_all_is_the_first_of_its_equals_on_every_path():
    x = np.array([1, -0.0, 0.0, -1, 0.0], np.float32)
    both = jax.jit(lambda x: (impl.median(x), impl.nanmedian(x[::-1])))
    # With the mode off and on, by XLA and by kernels.
    for on, lowering in ((True, "native"), (False, "seed 1"), (False, "seed 2")):
        with impl.deterministic(on, profile="complete"), LOWERINGS[lowering]():
            assert_all_same_bits(both(x), (x[1], x[4]), lowering)


@pytest.mark.triton
def test_kernels_of_a_gpu():
    x = jnp.ones((4, 3))
    for mode in (False, True):
        with impl.deterministic(mode, profile="complete"):
            for op in (impl.median, impl.nanmedian):
                for function in (op, lambda x, op=op: op(x, 0)):
                    assert kernels(lower(function, x)) == {"select_ordered_first"}
            text = lower(lambda x: (impl.sort(x), impl.topk(x, 2), impl.mode(x)), x).as_text()
    assert "stablehlo.scatter" not in text
    assert "is_stable = true" in text


@pytest.mark.parametrize("profile", ["torch-1.10", "torch-2.12"])
def test_only_the_median_with_indices_raises(profile):
    x = jnp.ones((4, 3))
    impl.use_deterministic_algorithms(True, profile=profile)
    with pytest.raises(RuntimeError, match="median CUDA with indices output"):
        lower(lambda x: impl.median(x, 0).values, x)
    for call in (impl.median, impl.nanmedian, lambda x: impl.nanmedian(x, 0).values):
        lower(jax.grad(lambda x, call=call: call(x).sum()), x)


#: Numbers of which two or three are the median; and NaNs.
SHARES = np.array(
    [[0, 1, -0.0, 2, 0, -5], [5, 2, 5, 2, 1, 9], [np.nan, 1, np.nan, 1, 1, 2], [np.nan] * 6],
    np.float32,
)


def shares(x, op):
    """Returns each row's gradient, and its derivative in a direction along two elements."""
    dots = jnp.resize(jnp.asarray([0, 0, 3, 3, 0, 0], x.dtype), x.shape)
    return jax.vmap(jax.grad(op))(x), jax.vmap(lambda a, t: jax.jvp(op, (a,), (t,))[1])(x, dots)


@pytest.mark.parametrize("op", ["median", "nanmedian"])
def test_equals_share_the_gradient_of_a_number(op):
    medians = {"median": [0, 2, np.nan, np.nan], "nanmedian": [0, 2, 1, np.nan]}[op]
    inputs = {dtype.__name__: SHARES.astype(dtype) for dtype in (np.float32, np.float16)}
    share = functools.partial(shares, op=getattr(impl, op))
    results = run_together({name: (share, x) for name, x in inputs.items()})
    for name, (gradient, dot) in results.items():
        x, dtype = inputs[name], inputs[name].dtype
        equal = (x == np.array(medians)[:, None]) | (np.isnan(x) & np.isnan(medians)[:, None])
        count = equal.sum(1, keepdims=True).astype(dtype)
        assert_same_bits(gradient, equal / count)
        three = dtype.type(3)
        assert_same_bits(dot, (equal[:, 2:4].sum(1) * three / count[:, 0]).astype(dtype))


def test_the_second_derivative_of_a_median():
    square = jax.jit(jax.hessian(lambda x: impl.median(x) ** 2))(SHARES[1, :4])
    want = np.zeros((4, 4), np.float32)
    want[1::2, 1::2] = 0.5
    assert_same_bits(square, want)


def test_torch_shares_gradients_of_equals(torch):
    for op in ("median", "nanmedian"):
        rows = torch.from_numpy(SHARES.copy()).requires_grad_()
        sum(getattr(torch, op)(row) for row in rows).backward()
        gradient = jax.jit(jax.vmap(jax.grad(getattr(impl, op))))(SHARES)
        assert_same_bits(gradient, rows.grad.numpy())
