"""The pair of kernels of scatters: what they combine, in which order, and for which programs.

Tests: impl._kernels.scatters, impl._kernels.launch, impl._run_to_run.ordered.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._kernels import scatters
from impl._kernels.launch import ADD, MUL, Launch
from impl.testing import lower
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.numbers import spread
from impl.tests.support.programs import kernels, scatters_floats

#: Destinations, width and contributions: of one block, of several blocks, and of several levels.
SIZES = [(4, 5, 1), (5, 1, 100), (3, 130, 600), (1, 2, 700), (50, 1, 31), (2, 1, 9000)]


def drawn(size, width, count, dtype=np.float32, *, factors=False):
    """Returns an operand, keys and updates whose sums and products are exact in every order."""
    rng = np.random.default_rng((size, width, count))
    keys = rng.integers(0, size + 1, count).astype(np.int32)  # ``size`` is dropped.
    shapes = (size, width), (count, width)
    if factors:
        operand, updates = (rng.choice([-2.0, -1.0, 0.5, 1.0], shape) for shape in shapes)
        updates[count // 8 :] = np.sign(updates[count // 8 :])
    else:
        operand, updates = (rng.integers(-8, 8, shape) for shape in shapes)
        updates[100:] %= 2 if dtype == jnp.bfloat16 else 8
    return operand.astype(dtype), keys, updates.astype(dtype)


def combined(operand, keys, updates, reduction):
    out = operand.astype(np.float64)
    inside = keys < len(operand)
    ufunc = np.add if reduction is ADD else np.multiply
    ufunc.at(out, keys[inside], updates[inside].astype(np.float64))
    return out.astype(operand.dtype)


def fold(operand, keys, updates, reduction, launch):
    order = np.argsort(keys, kind="stable").astype(np.int32)
    arrays = map(jnp.asarray, (operand, keys[order], order, updates))
    return scatters.fold(*arrays, reduction=reduction, launch=launch)


@pytest.mark.parametrize(
    ("size", "reduction"),
    # Another release interprets the same kernel.
    [
        pytest.param(size, reduction, marks=() if count < 2 else pytest.mark.once)
        for count, (size, reduction) in enumerate(zip(SIZES, [ADD, MUL] * 3, strict=True))
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_runs_have_all_their_contributions(size, reduction):
    launches = (np.float32, Launch(True, 3)), (jnp.bfloat16, Launch(True, 0))
    for dtype, launch in launches[: 2 if size[2] < 1000 else 1]:
        arrays = drawn(*size, dtype, factors=reduction is MUL)
        got = fold(*arrays, reduction, launch)
        assert_same_bits(got, combined(*arrays, reduction), f"{dtype} {launch}")


def test_the_order_of_a_run_is_fixed():
    rng = np.random.default_rng(0)
    operand, keys, updates = spread(rng, (3, 1)), rng.integers(0, 3, 700), spread(rng, (700, 1))
    keys = keys.astype(np.int32)
    results = {bits(fold(operand, keys, updates, ADD, Launch(True, seed))) for seed in range(3)}
    assert len(results) == 1
    assert bits(fold(operand, keys[::-1], updates[::-1], ADD, Launch(True))) not in results


@pytest.mark.parametrize("reduction", [ADD, MUL], ids=lambda each: each.name)
def test_atomics_combine_in_any_order(reduction):
    arrays = drawn(5, 3, 300, factors=reduction is MUL)
    combine = lambda arrays, seed: scatters.combine(  # noqa: E731
        *map(jnp.asarray, arrays), reduction=reduction, launch=Launch(True, seed)
    )
    assert_same_bits(combine(arrays, 1), combined(*arrays, reduction))
    rough = arrays[0], arrays[1], 1 + spread(np.random.default_rng(0), (300, 3)) / 64
    assert len({bits(combine(rough, seed)) for seed in range(3)}) > 1


INDEX = np.array([0, 1, 1, 3], np.int32)
PROGRAMS = {
    "add": lambda x: x.at[INDEX].add(x),
    "subtract": lambda x: x.at[INDEX].subtract(x),
    "index_add": lambda x: impl.index_add(x, 0, INDEX, x),
    "gradient": jax.grad(lambda x: (impl.index_select(x, 0, INDEX) ** 2).sum()),
    "multiply": lambda x: x.at[INDEX].multiply(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_cuda_takes_a_kernel_of_the_pair(name):
    run, by = PROGRAMS[name], "mul" if name == "multiply" else "add"
    x = jnp.ones((4, 3))
    with impl.deterministic(profile="complete"):
        lowered = lower(run, x)
        assert kernels(lowered) == {f"scatter_{by}_runs"}
        assert not scatters_floats(lowered.as_text())
        for platform in ("cpu", "rocm", "tpu"):
            lowered = lower(run, x, platform=platform)
            assert kernels(lowered) == set()
            assert platform == "cpu" or not scatters_floats(lowered.as_text())
    # With the mode off, the kernel is for what XLA compiles to a loop of compare and swap.
    off = {"scatter_mul_atomic"} if by == "mul" else set()
    with impl.deterministic(False):
        assert kernels(lower(run, x)) == off
        if name in ("add", "subtract", "multiply"):
            assert kernels(lower(run, x.astype(jnp.bfloat16))) == set()


def test_what_does_not_race_takes_no_kernel():
    x = jnp.ones((4, 3))
    unique = lambda x: impl.index_add(x, 0, INDEX[[0, 1, 3]], x[:3], unique_indices=True)  # noqa: E731
    with impl.deterministic(profile="complete"):
        assert kernels(lower(PROGRAMS["add"], x.astype(jnp.int32))) == set()
        assert kernels(lower(unique, x)) == set()
        with jax.enable_x64(True):
            assert kernels(lower(PROGRAMS["add"], np.ones((4, 3)))) == {"scatter_add_runs"}
        with impl.deterministic(guarantee="portable"):
            assert kernels(lower(PROGRAMS["multiply"], x)) == set()
