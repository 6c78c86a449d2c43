"""Running sums, products, logarithms of sums of exponentials, and extremes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from conformance.cases._extremes import running
from conformance.cases._scans import pullback_of_product, running_product
from impl._core.scan_combines import COMBINES, joined, split
from impl._kernels import scan as scans
from impl._kernels.launch import Launch
from impl.testing import lower
from impl.tests._support import LOWERINGS, assert_same_bits, bits, kernels, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")

OPS = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]
EXTREMES = {"cummax": np.maximum, "cummin": np.minimum}


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="a peer to compare with")


def near_one(shape, dtype=np.float32, seed=0):
    """Numbers of both signs whose products stay in range."""
    rng = np.random.default_rng(seed)
    value = np.exp(rng.standard_normal(shape) / 50) * rng.choice([-1, 1], shape)
    if np.dtype(dtype).kind == "c":
        value = value * np.exp(1j * rng.standard_normal(shape))
    return value.astype(dtype)


def along(function, x, dim):
    return np.moveaxis(function(np.moveaxis(x, dim, 0)), 0, dim)


# Bits.


@pytest.mark.parametrize(
    "shape",
    [
        (1, 40_000, 1),  # several tiles of blocks side by side, some left over, and a tail
        (40, 2048, 1),  # tiles of rows, the last of them moved back; no tail
        (5, 3000, 3),
        (2, 1100, 300),  # more adjacent lanes than a tile has
        (70, 7, 41),  # several rows to a tile, and rows shorter than a block
    ],
    ids=str,
)
def test_tiles_of_every_kind(shape):
    values = spread(np.random.default_rng(0), shape)
    values[:, :2] = -0.0
    assert_same_bits(impl.cumsum(values, 1), along(oracles.blocked_scan, values, 1))
    for op, extreme in EXTREMES.items():
        for own, want in zip(
            getattr(impl, op)(values, 1), running(np.moveaxis(values, 1, 0), extreme), strict=True
        ):
            assert_same_bits(own, np.moveaxis(want, 0, 1))


def test_products_of_another_order_have_other_bits():
    values = near_one(2100)
    assert bits(running_product(values)) != bits(np.multiply.accumulate(values))


@pytest.mark.parametrize("op", EXTREMES)
@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float16, np.uint32, bool],
    ids=lambda d: d.__name__,
)
@pytest.mark.parametrize("name", ["native", "xla"])
def test_extremes_of_ties_nans_and_zeros(op, dtype, name):
    rng = np.random.default_rng(0)
    values = rng.integers(0 if np.dtype(dtype).kind in "ub" else -3, 4, (1200, 3))
    values = values.astype(np.float64)
    if dtype in (np.float32, np.float16):
        values = np.where(rng.random(values.shape) < 0.5, values, -values)  # -0 among them
        values[[700, 703], 1] = np.nan
        values[:5, 2] = np.inf, -np.inf, np.inf, np.nan, -np.inf
    values = values.astype(dtype)
    with LOWERINGS[name]():
        found = getattr(impl, op)(values, 0)
    for own, want in zip(found, running(values, EXTREMES[op]), strict=True):
        assert_same_bits(own, want)


@pytest.mark.parametrize(("steps", "group"), [(1, 8), (9, 8), (12, 8), (40, 3)])
def test_the_kernel_takes_several_steps_at_a_time(steps, group):
    values = near_one((2, steps, 3), np.complex64)
    parts = split(jnp.asarray(values))
    launch = Launch(interpret=True, seed=1)
    got = scans.fold_blocks(parts, COMBINES["mul"], launch=launch, group=group)
    assert_same_bits(joined(got), along(running_product, values, 1))


def test_products_of_narrow_floats_are_wide_all_the_way():
    values = near_one((1100, 2), jnp.bfloat16)
    values[3, 0] = 0
    weight = spread(np.random.default_rng(1), values.shape, jnp.bfloat16)
    out, pullback = jax.vjp(lambda x: impl.cumprod(x, 0), values)
    assert_same_bits(out, running_product(values))
    assert_same_bits(pullback(jnp.asarray(weight))[0], pullback_of_product(weight, values))


@pytest.mark.parametrize("op", OPS)
def test_what_reaches_a_gpu(op):
    fold = set() if op in EXTREMES else {"scan_ordered_fold"}

    def loss(x):
        return jax.tree.leaves(getattr(impl, op)(x, 0))[0].sum().real

    for dtype in (jnp.float32, jnp.bfloat16, *([] if op in EXTREMES else [jnp.complex64])):
        lowered = lower(jax.value_and_grad(loss), jnp.ones((1030, 3), dtype))
        found = kernels(lowered)
        assert {name for name in found if name.startswith("scan")} == fold
        assert "stablehlo.scatter" not in lowered.as_text()


# Values, against PyTorch.

SHAPES = [((), 0), ((4,), -1), ((3, 5), 0), ((2, 3, 4), 1), ((2, 1, 3, 2), -2), ((0, 3), 0)]
SHAPES += [((3, 0), 0), ((2, 2, 3, 1, 2), 2)]
TOLERANCE = {"float32": 1e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}


def to_torch(torch, x):
    if x.dtype == jnp.bfloat16:
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.array(x))


def to_numpy(value):
    wide = value.detach().resolve_conj()
    return (wide.float() if wide.dtype.itemsize == 2 and wide.is_floating_point() else wide).numpy()


def close(got, want, dtype):
    got = np.asarray(got)
    assert got.shape == want.shape
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE.get(np.dtype(dtype).name, 0)
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance * 5
    )


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_values_and_gradients(torch, op, shape, dim):
    kinds = [np.float32] if op in EXTREMES or not shape else [np.float32, np.complex64]
    for dtype in kinds:
        x = np.asarray(near_one(shape, dtype) * 2)
        if x.size > 3:
            x.reshape(-1)[[1, -1]] = 0 if op == "cumprod" else 1
        leaf = to_torch(torch, x).requires_grad_()
        want = getattr(torch, op)(leaf, dim)
        call = functools.partial(lambda op, v: getattr(impl, op)(v, dim), op)
        if op in EXTREMES:
            np.testing.assert_array_equal(call(x).indices, want.indices)
            assert call(x)._fields == ("values", "indices")
            want = want.values
            call = functools.partial(lambda op, v: getattr(impl, op)(v, dim).values, op)
        out, pullback = jax.vjp(call, x)
        close(out, to_numpy(want), dtype)
        weight = np.asarray(near_one(shape, dtype, 1) + 1)
        want.backward(torch.from_numpy(weight))
        # PyTorch's gradient of a complex number is the conjugate of JAX's.
        got = np.conj(pullback(jnp.asarray(np.conj(weight)))[0])
        close(got, to_numpy(leaf.grad), dtype)


INTEGERS = [np.uint8, np.int8, np.int16, np.int32, bool]
FLOATS = [np.float16, jnp.bfloat16]


@pytest.mark.parametrize("op", OPS)
def test_dtypes(torch, op):
    rng = np.random.default_rng(0)
    for dtype in [*([] if op == "logcumsumexp" else INTEGERS), *FLOATS]:
        low = 0 if np.dtype(dtype).kind in "ub" else -3
        x = rng.integers(low, 4, (5, 3)).astype(dtype)
        out = getattr(impl, op)(x, 1)
        want = getattr(torch, op)(to_torch(torch, x), 1)
        for own, right in zip(
            jax.tree.leaves(out), [*want] if op in EXTREMES else [want], strict=True
        ):
            close(own, to_numpy(right), dtype)
        kept = op in EXTREMES or dtype in FLOATS
        assert jax.tree.leaves(out)[0].dtype == (dtype if kept else jnp.result_type(int))


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_dtype_is_converted_to_first(torch, op):
    cases = [
        (np.float32, [1.6, -2.5, 3.2], "int32"),
        (np.int32, [3, 100, 5], "int8"),
        (np.int32, [3, 100, 5], "float32"),
        (np.float32, [0.1, 0.2, 3.0], "float16"),
        (np.float32, [0.1, 0.2, 3.0], "complex64"),
        (bool, [True, True, False], "float32"),
    ]
    for dtype, numbers, wanted in cases:
        x = np.array(numbers, dtype)
        got = getattr(impl, op)(x, 0, dtype=jnp.dtype(wanted))
        want = getattr(torch, op)(torch.from_numpy(x), 0, dtype=getattr(torch, wanted))
        assert got.dtype == wanted
        close(got, to_numpy(want), wanted)


def test_dtype_in_gradients_and_from_complex_numbers():
    gradient = jax.grad(lambda x: impl.cumsum(x, 0, dtype=jnp.float32).sum())
    assert_same_bits(gradient(jnp.ones(3, jnp.bfloat16)), np.array([3, 2, 1], jnp.bfloat16))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        got = impl.cumprod(np.array([2 + 1j, 3 - 1j], np.complex64), 0, dtype=np.float32)
    assert_same_bits(got, np.array([2, 6], np.float32))


def test_float64():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x = rng.standard_normal((1500, 2)) / 8
        assert_same_bits(impl.cumsum(x, 0), oracles.blocked_scan(x))
        want = np.logaddexp.accumulate(x, 0)
        np.testing.assert_allclose(impl.logcumsumexp(x, 0), want, rtol=1e-13)
        assert impl.cumprod(np.arange(3), 0).dtype == np.int64
        assert impl.cummax(x, 0).indices.dtype == np.int64
        values = near_one(1500, np.float64)
        pullback = jax.vjp(lambda v: impl.cumprod(v, 0), values)[1]
        weight = rng.standard_normal(1500)
        assert_same_bits(pullback(jnp.asarray(weight))[0], pullback_of_product(weight, values))


@pytest.mark.usefixtures("lowering")
def test_logarithms_at_the_ends(torch):
    inf, nan = np.inf, np.nan
    rows = [[inf, 1, 2], [-inf, -inf, 1], [inf, -inf, 0], [nan, 1, 2], [1, nan, inf], [-inf] * 3]
    rows += [[88, 89, 90], [-200, -300, 5], [1, inf, -inf]]
    x = np.array(rows, np.float32)
    close(impl.logcumsumexp(x, 1), torch.logcumsumexp(torch.from_numpy(x), 1).numpy(), x.dtype)


def test_gradients_of_logarithms_of_nothing_are_nothing():
    # PyTorch has NaN for the terms that are minus infinity in a sum that is.
    x = jnp.array([-jnp.inf, -jnp.inf, 1.0, -jnp.inf, 2.0])
    got = jax.grad(lambda v: impl.logcumsumexp(v, 0)[2:].sum())(x)
    share = 1 / (1 + np.exp(1))
    np.testing.assert_allclose(got, [0, 0, 2 + share, 0, 1 - share], rtol=1e-6)


def test_gradients_of_products_with_zeros_are_finite_and_right():
    x = jnp.array([2.0, 0.0, 3.0, 0.0, 5.0])
    got = jax.grad(lambda v: (impl.cumprod(v, 0) * jnp.arange(1.0, 6)).sum())(x)
    assert got.tolist() == [1, 2 * (2 + 3 * 3), 0, 0, 0]
    second = jax.hessian(lambda v: impl.cumprod(v, 0)[4])(x)
    assert second[1, 3] == second[3, 1] == 2 * 3 * 5
    assert np.count_nonzero(second) == 2


# Transformations.

SMOOTH = ["cumsum", "cumprod", "logcumsumexp"]
FOUR = near_one((4, 3))


@pytest.mark.parametrize("op", SMOOTH)
def test_derivatives_against_finite_differences(op):
    check_grads(
        jax.jit(lambda x: (getattr(impl, op)(x, 0) ** 2).sum()),
        (FOUR,),
        order=2,
        atol=0.05,
        rtol=0.05,
        eps=1e-2,
    )


@pytest.mark.parametrize("op", OPS)
def test_jit_vmap_and_checkpoint_give_the_same_bits(op):
    x = near_one((2, 4, 3))

    def call(v):
        return jax.tree.leaves(getattr(impl, op)(v, 0))[0]

    def loss(v):
        return (call(v) * FOUR).sum()

    assert_same_bits(jax.jit(call)(x[0]), call(x[0]))
    each = [np.stack([function(row) for row in x]) for function in (call, jax.grad(loss))]
    assert_same_bits(jax.vmap(call)(x), each[0])
    assert_same_bits(jax.vmap(jax.grad(loss))(x), each[1])
    assert_same_bits(jax.vmap(call, 1, 1)(np.moveaxis(x, 0, 1)), np.moveaxis(each[0], 0, 1))
    assert_same_bits(jax.grad(jax.checkpoint(loss))(x[0]), each[1][0])


# Bad input.

V, COMPLEX = np.ones(3, np.float32), np.ones(2, np.complex64)
BAD = [
    *((op, (V, 1), {}, IndexError, "but got 1") for op in OPS),
    *((op, (np.float32(1), -2), {}, IndexError, "but got -2") for op in OPS),
    *((op, (V, True), {}, TypeError, "'dim' must be int, not bool") for op in OPS),
    *((op, (V, None), {}, TypeError, "'dim' must be int, not NoneType") for op in OPS),
    *((op, ([1.0], 0), {}, TypeError, "'input' must be") for op in OPS),
    *((op, (V,), {}, TypeError, "dim") for op in OPS),
    *((op, (COMPLEX, 0), {}, NotImplementedError, "complex64") for op in EXTREMES),
    ("logcumsumexp", (np.ones(2, np.int32), 0), {}, NotImplementedError, "int32"),
    ("logcumsumexp", (np.ones(2, bool), 0), {}, NotImplementedError, "bool"),
    *((op, (V, 0), {"dtype": bool}, NotImplementedError, "bool") for op in OPS[:2]),
    *((op, (V, 0), {"dtype": 3}, TypeError, "'dtype' must be") for op in OPS[:2]),
]


@pytest.mark.parametrize(("op", "args", "options", "error", "says"), BAD)
def test_bad_input(op, args, options, error, says):
    with pytest.raises(error) as caught:
        getattr(impl, op)(*args, **options)
    assert says in str(caught.value)
    assert op in str(caught.value)


@pytest.mark.parametrize(("op", "args", "options", "error"), [bad[:4] for bad in BAD])
def test_bad_input_in_pytorch(torch, op, args, options, error):
    options = {k: torch.bool if v is bool else v for k, v in options.items()}
    args = (args[0] if isinstance(args[0], list) else torch.tensor(args[0]), *args[1:])
    with pytest.raises(error):
        getattr(torch, op)(*args, **options)
