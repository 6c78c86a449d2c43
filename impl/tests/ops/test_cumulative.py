"""cumsum, cumprod, logcumsumexp, cummax and cummin.

Tests: impl._lowerings.scan_extreme, impl._lowerings.scan_positions, impl._primitives.scan_extreme,
impl.ops.cummax, impl.ops.cummin, impl.ops.cumprod, impl.ops.logcumsumexp.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.testing import lower
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits, bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import near_one, spread
from impl.tests.support.programs import kernels, run_together
from impl.tests.support.references import (
    cumulative_extreme,
    cumulative_product,
    gradient_of_cumulative_product,
)
from impl.tests.support.refusals import BadArguments, Call
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")

OPS = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]
EXTREMES = {"cummax": np.maximum, "cummin": np.minimum}
every_op = pytest.mark.parametrize("op", OPS)


# Bits.


TILES = [
    (1, 70_000, 1),  # five levels, and a tail
    (40, 4096, 1),  # three full levels
    (5, 300, 3),
    (2, 17, 300),
    (70, 7, 41),  # shorter than a block
]


@pytest.mark.parametrize("op", ["cumsum", *EXTREMES])
def test_tiles_of_every_kind(op):
    calls = {}
    # cummin differs from cummax in the keys alone: one shape is enough.
    for shape in TILES if op != "cummin" else [(5, 3000, 3)]:
        values = spread(np.random.default_rng(0), shape)
        values[:, :2] = -0.0
        calls[f"{shape}"] = lambda x: jax.tree.leaves(getattr(impl, op)(x, 1)), values
    for name, got in run_together(calls).items():
        steps = np.moveaxis(calls[name][1], 1, 0)
        if op == "cumsum":
            want = [oracles.blocked_scan(steps)]
        else:
            want = cumulative_extreme(steps, EXTREMES[op])
        assert_all_same_bits(got, [np.moveaxis(part, 0, 1) for part in want], name)


def test_products_of_another_order_have_other_bits():
    values = near_one(2100)
    assert bits(cumulative_product(values)) != bits(np.multiply.accumulate(values))


@pytest.mark.parametrize("op", EXTREMES)
@pytest.mark.parametrize("name", ["native", "xla"])
def test_extremes_of_ties_nans_and_zeros(op, name):
    rng = np.random.default_rng(0)
    calls = {}
    for dtype in (np.float32, np.float16, np.uint32, bool):
        values = rng.integers(0 if np.dtype(dtype).kind in "ub" else -3, 4, (1200, 3))
        values = values.astype(np.float64)
        if dtype in (np.float32, np.float16):
            values = np.where(rng.random(values.shape) < 0.5, values, -values)  # -0 among them
            values[[700, 703], 1] = np.nan
            values[:5, 2] = np.inf, -np.inf, np.inf, np.nan, -np.inf
        calls[dtype.__name__] = lambda x: getattr(impl, op)(x, 0), values.astype(dtype)
    with LOWERINGS[name]():
        results = run_together(calls)
    for dtype, got in results.items():
        assert_all_same_bits(got, cumulative_extreme(calls[dtype][1], EXTREMES[op]), dtype)


def test_products_of_narrow_floats_are_wide_in_every_step():
    values = near_one((1100, 2), jnp.bfloat16)
    values[3, 0] = 0
    weight = spread(np.random.default_rng(1), values.shape, jnp.bfloat16)

    @jax.jit
    def both(x, w):
        out, pullback = jax.vjp(lambda x: impl.cumprod(x, 0), x)
        return out, *pullback(w)

    out, gradient = both(values, weight)
    assert_same_bits(out, cumulative_product(values))
    assert_same_bits(gradient, gradient_of_cumulative_product(weight, values))


@pytest.mark.triton
@every_op
def test_kernels_of_a_gpu(op):

    def loss(x):
        return jax.tree.leaves(getattr(impl, op)(x, 0))[0].sum().real

    for dtype in (jnp.float32, *([jnp.bfloat16, jnp.complex64] if op == "cumsum" else [])):
        lowered = lower(jax.value_and_grad(loss), jnp.ones((1030, 3), dtype))
        scans = {name for name in kernels(lowered) if name.startswith("scan")}
        assert scans == {"scan_ordered_totals", "scan_ordered_tiles"}
        if op not in EXTREMES:  # Their gradients are scatters.
            assert "stablehlo.scatter" not in lowered.as_text()


@pytest.mark.triton
@pytest.mark.parametrize("op", ["cumprod", "logcumsumexp"])
def test_gradients_of_rows_are_one_kernel_more(op):
    x = jnp.ones((3, 4096))
    text = lower(jax.grad(lambda x: getattr(impl, op)(x, 1).sum()), x).as_text()
    assert text.count("scan_ordered_tiles") >= 2
    # The two kernels multiply and shift; no operation of XLA does.
    for outside in ("exponential", "stablehlo.concatenate", "stablehlo.multiply", "totals"):
        assert outside not in text


@pytest.mark.triton
def test_sums_with_the_mode_off_are_those_of_jax():
    for dtype in (jnp.float32, jnp.complex64):
        x = jnp.ones((3, 40), dtype)
        for mode in (False, True):
            with impl.deterministic(mode, profile="complete"):
                names = kernels(lower(lambda x: impl.cumsum(x, 1), x))
            assert bool(names) == mode


# Values, against PyTorch.

TOLERANCE = {"float32": 1e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}


def to_numpy(value):
    wide = value.detach().resolve_conj()
    return (wide.float() if wide.dtype.itemsize == 2 and wide.is_floating_point() else wide).numpy()


def assert_close(got, want, dtype, label=""):
    got = np.asarray(got)
    assert got.shape == want.shape, label
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE.get(np.dtype(dtype).name, 0)
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance * 5, err_msg=label
    )


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_the_input_is_converted_to_dtype_first(torch, op):
    cases = [
        (np.float32, [1.6, -2.5, 3.2], "int32"),
        (np.int32, [3, 100, 5], "int8"),
        (np.int32, [3, 100, 5], "float32"),
        (np.float32, [0.1, 0.2, 3.0], "float16"),
        (np.float32, [0.1, 0.2, 3.0], "complex64"),
        (bool, [True, True, False], "float32"),
    ]
    calls, theirs = {}, {}
    for dtype, numbers, out in cases:
        x = np.array(numbers, dtype)
        name = f"{dtype.__name__} to {out}"
        calls[name] = lambda x, out=out: getattr(impl, op)(x, 0, dtype=jnp.dtype(out)), x
        theirs[name] = getattr(torch, op)(torch.from_numpy(x), 0, dtype=getattr(torch, out))
    for name, got in run_together(calls).items():
        assert got.dtype == name.rpartition(" ")[2]
        assert_close(got, to_numpy(theirs[name]), got.dtype, name)


def test_dtype_in_gradients_and_from_complex_numbers():
    gradient = jax.grad(lambda x: impl.cumsum(x, 0, dtype=jnp.float32).sum())
    assert_same_bits(gradient(jnp.ones(3, jnp.bfloat16)), np.array([3, 2, 1], jnp.bfloat16))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        got = impl.cumprod(np.array([2 + 1j, 3 - 1j], np.complex64), 0, dtype=np.float32)
    assert_same_bits(got, np.array([2, 6], np.float32))


@pytest.mark.usefixtures("lowering")
def test_logcumsumexp_at_the_ends(torch):
    inf, nan = np.inf, np.nan
    rows = [[inf, 1, 2], [-inf, -inf, 1], [inf, -inf, 0], [nan, 1, 2], [1, nan, inf], [-inf] * 3]
    rows += [[88, 89, 90], [-200, -300, 5], [1, inf, -inf]]
    x = np.array(rows, np.float32)
    got = jax.jit(lambda x: impl.logcumsumexp(x, 1))(x)
    assert_close(got, torch.logcumsumexp(torch.from_numpy(x), 1).numpy(), x.dtype)


def test_gradients_of_logcumsumexp_of_nothing_are_zero():
    # PyTorch has NaN for a term of minus infinity, if the sum is minus infinity.
    x = jnp.array([-jnp.inf, -jnp.inf, 1.0, -jnp.inf, 2.0])
    got = jax.jit(jax.grad(lambda v: impl.logcumsumexp(v, 0)[2:].sum()))(x)
    share = 1 / (1 + np.exp(1))
    np.testing.assert_allclose(got, [0, 0, 2 + share, 0, 1 - share], rtol=1e-6)


def test_gradients_of_cumprod_with_zeros_are_finite_and_right():
    x = jnp.array([2.0, 0.0, 3.0, 0.0, 5.0])

    @jax.jit
    def derivatives(x):
        weighted = lambda v: (impl.cumprod(v, 0) * jnp.arange(1.0, 6)).sum()  # noqa: E731
        return jax.grad(weighted)(x), jax.hessian(lambda v: impl.cumprod(v, 0)[4])(x)

    first, second = derivatives(x)
    assert first.tolist() == [1, 2 * (2 + 3 * 3), 0, 0, 0]
    assert second[1, 3] == second[3, 1] == 2 * 3 * 5
    assert np.count_nonzero(second) == 2


# Bad arguments.

V, COMPLEX = np.ones(3, np.float32), np.ones(2, np.complex64)
CALLS: list[Call] = [
    *((op, (V, 1), IndexError, "but got 1") for op in OPS),
    *((op, (np.float32(1), -2), IndexError, "but got -2") for op in OPS),
    *((op, (V, True), TypeError, "'dim' must be int, not bool") for op in OPS),
    *((op, (V, None), TypeError, "'dim' must be int, not NoneType") for op in OPS),
    *((op, (V, 1.0), TypeError, "'dim' must be int, not float") for op in OPS),
    *((op, ([1.0], 0), TypeError, "'input' must be") for op in OPS),
    *((op, (V,), TypeError, "dim") for op in OPS),
    *((op, (COMPLEX, 0), NotImplementedError, "complex64") for op in EXTREMES),
    ("logcumsumexp", (np.ones(2, np.int32), 0), NotImplementedError, "int32"),
    ("logcumsumexp", (np.ones(2, bool), 0), NotImplementedError, "bool"),
    *((op, (V, 0), {"dtype": bool}, NotImplementedError, "bool") for op in OPS[:2]),
    *((op, (V, 0), {"dtype": 3}, TypeError, "'dtype' must be") for op in OPS[:2]),
]


class TestBadArguments(BadArguments):
    calls = CALLS


def test_cummax_and_cummin_of_several_tiles_in_shard_map(rng):
    x = rng.permutation(2 * 2500).reshape(2, 2500).astype(np.float32)

    def run(x):
        results = []
        for op in (impl.cummax, impl.cummin):
            values, pullback, indices = jax.vjp(functools.partial(op, dim=1), x, has_aux=True)
            results += [values, indices, *pullback(values)]
        return results

    mapped = jax.shard_map(
        run,
        mesh=Mesh(np.array(jax.devices()[:1]), ("d",)),
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec("d"),
        check_vma=True,
    )
    assert_all_same_bits(jax.jit(mapped)(x), jax.jit(run)(x))
