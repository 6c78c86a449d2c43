"""kthvalue, median, nanmedian, mode, topk, sort, argsort: what they pick, and its derivative."""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from ml_dtypes import bfloat16

import impl
from impl._lowerings import sort as rank_lowerings
from impl.testing import lower
from impl.tests._support import LOWERINGS, assert_same_bits, kernels
from spec import oracles

FLOATS = [np.float32, np.float16, bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.uint8]

#: Name -> call of an op that returns values and indices along ``dim``; the oracle of its
#: positions from float64 of shape [n, lanes], which tells whether the dimension stays.
PICKS = {
    "kthvalue": (lambda ns, x, dim: ns.kthvalue(x, 2, dim), lambda x: _kth(x, lambda _: 2)),
    "median": (
        lambda ns, x, dim: ns.median(x, dim),
        lambda x: _kth(x, lambda c: len(c) if np.isnan(c).any() else (len(c) + 1) // 2),
    ),
    "nanmedian": (
        lambda ns, x, dim: ns.nanmedian(x, dim),
        lambda x: _kth(x, lambda c: max(1, ((~np.isnan(c)).sum() + 1) // 2)),
    ),
    "mode": (lambda ns, x, dim: ns.mode(x, dim), oracles.most_frequent),
    "topk": (
        lambda ns, x, dim: ns.topk(x, 2, dim),
        lambda x: oracles.stable_sort(x, descending=True)[:2],
    ),
    "least": (
        lambda ns, x, dim: ns.topk(x, 2, dim, largest=False, sorted=False),
        lambda x: oracles.stable_sort(x)[:2],
    ),
    "sort": (lambda ns, x, dim: ns.sort(x, dim=dim, stable=True), oracles.stable_sort),
    "descending": (
        lambda ns, x, dim: ns.sort(x, dim=dim, descending=True, stable=True),
        functools.partial(oracles.stable_sort, descending=True),
    ),
}
OF_BOOLS = ("mode", "sort", "descending")


def _kth(x, rank):
    return np.array([oracles.lowest_index(c, rank(c)) for c in x.T], np.int64)


def drawn(shape, dtype, seed=0):
    """Few different numbers; among floats zeros of both signs, infinities and NaNs."""
    rng = np.random.default_rng((seed, zlib.crc32(np.dtype(dtype).name.encode()), *shape))
    x = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape)
    if np.dtype(dtype).kind in "iub":
        return x.astype(dtype)
    x = np.where(rng.random(shape) < 0.5, -x.astype(np.float64), x)
    x = np.where(rng.random(shape) < 0.1, np.nan, x)
    return np.where(x == 3, np.inf, x).astype(dtype)


def wanted(name, x, dim):
    """Values and indices by the oracle."""
    lanes = np.moveaxis(np.atleast_1d(x), dim, 0)
    flat = lanes.reshape(lanes.shape[0], -1)
    index = PICKS[name][1](flat.astype(np.float64))
    stays = index.ndim == flat.ndim
    index = index if stays else index[None]
    both = []
    for flat_part in (np.take_along_axis(flat, index, 0), index.astype(np.int32)):
        part = np.moveaxis(flat_part.reshape(-1, *lanes.shape[1:]), 0, dim)
        both.append(part if stays and x.ndim else part.squeeze(dim))
    return both


def check(name, x, dim, got):
    for own, right in zip(got, wanted(name, x, dim), strict=True):
        assert_same_bits(own, right)


@functools.partial(jax.jit, static_argnums=(1, 2))
def everything(x, dim, names):
    """All in one program, which compiles faster than each."""
    return {name: tuple(PICKS[name][0](impl, x, dim)) for name in names}


# Values and indices.


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, bool], ids=lambda d: np.dtype(d).name)
@pytest.mark.usefixtures("complete")
def test_every_dtype(dtype):
    x = drawn((9, 6), dtype)
    names = OF_BOOLS if dtype is bool else tuple(PICKS)
    for name, got in everything(x, 0, names).items():
        check(name, x, 0, got)


def test_with_the_mode_off():
    x = drawn((9, 6), np.float32)
    for name, got in everything(x, 0, tuple(PICKS)).items():
        check(name, x, 0, got)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((), -1), ((7,), 0), ((4, 5), -1), ((2, 3, 4), 1), ((2, 2, 3, 2, 2), -3)],
)
def test_every_shape(shape, dim):
    x = drawn(shape, np.float32)
    # Of a number there are no two.
    names = tuple(n for n in PICKS if shape or n not in ("kthvalue", "topk", "least"))
    for name, got in everything(x, dim, names).items():
        check(name, x, dim, got)
    assert_same_bits(impl.argsort(x, dim), wanted("sort", x, dim)[1])
    kept = impl.mode(x, dim, keepdim=True)
    assert kept.values.shape == tuple(
        1 if shape and i == dim % len(shape) else n for i, n in enumerate(shape)
    )
    for op in (impl.median, impl.nanmedian):
        assert op(x, dim, keepdim=True).indices.shape == kept.indices.shape


def test_names_of_the_results():
    x = np.array([2.0, 1.0], np.float32)
    for op in (impl.median, impl.nanmedian, impl.mode, impl.sort):
        got = op(x, 0)
        assert got._fields == ("values", "indices")
        assert type(got).__name__.lower() == op.__name__
    assert impl.topk(x, k=1, dim=0, largest=True, sorted=True).indices.tolist() == [0]
    assert impl.argsort(x, 0, False, stable=True).tolist() == [1, 0]
    assert impl.median(x) == 1


def test_numbers_of_none():
    none = np.zeros((0, 3), np.float32)
    assert np.isnan(impl.median(none))
    assert np.isnan(impl.nanmedian(none[:, 0]))
    assert impl.median(none.astype(np.int32)) == np.iinfo(np.int32).min
    assert impl.median(none.astype(np.int8)) == 0
    for got in (impl.median(none, 1), impl.nanmedian(none, 1), impl.mode(none, 1)):
        assert got.values.shape == got.indices.shape == (0,)
    assert impl.sort(none, 0).values.shape == impl.argsort(none, 0).shape == (0, 3)
    assert impl.topk(none, 2, 1).indices.shape == (0, 2)
    assert impl.topk(none, 0, 0).indices.shape == (0, 3)
    assert impl.topk(none.T, 0).values.shape == (3, 0)
    # Of a number one is picked, also where none is asked for.
    assert impl.topk(np.float32(3), 0).values == 3
    assert jax.grad(impl.median)(none).shape == none.shape


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_numbers_at_the_limits(dtype):
    """On a CPU the first few are found as floats of the same order, whatever the numbers are."""
    info = jnp.finfo(dtype) if dtype is np.float32 else jnp.iinfo(dtype)
    few = np.array([info.max, info.min, 0, 1, info.max, 2**31 - 1, 2**24 + 1, 2**24], np.float64)
    if dtype is np.float32:
        # 1e-45 and its like are less than any normal number, and not 0.
        few = np.concatenate([few, [1e-45, -1e-45, 1e-40, -0.0, np.inf, -np.inf, np.nan]])
    x = np.resize(few.astype(dtype), 64)
    np.random.default_rng(0).shuffle(x)
    for largest in (True, False):
        order = oracles.stable_sort(x.astype(np.float64), descending=largest)
        for k in (4, 30, 64):
            got = impl.topk(x, k, largest=largest)
            assert_same_bits(got.indices, order[:k].astype(np.int32))
            assert_same_bits(got.values, x[order[:k]])


def test_64_bits():
    with jax.enable_x64(True):
        for x in (np.array([2**62 + 1, -(2**62), 2**62, 2**62 + 1]), np.array([1e300, -1, 1, 1])):
            assert impl.median(x) == np.sort(x)[1]
            assert impl.sort(x).indices.tolist() == np.argsort(x, kind="stable").tolist()
            assert impl.topk(np.tile(x, 20), 1).indices.tolist() == [int(np.argmax(x))]
            assert impl.mode(x).indices == oracles.most_frequent(x)
            assert impl.sort(x).indices.dtype == impl.mode(x).indices.dtype == np.int64
            assert impl.sort(x).values.dtype == x.dtype


def test_a_cpu_selects_some_rows_at_a_time():
    # Neither as many rows as in one step, nor a multiple of that.
    for shape, dim in (((1, 77, 1500), 2), ((3, 1500, 30), 1)):
        x = drawn(shape, np.float32)
        for name, got in everything(x, dim, ("nanmedian", "topk", "mode")).items():
            check(name, x, dim, got)


# Bits of the lowerings.


@pytest.mark.parametrize("lowering", ["native", "xla", "seed 1"])
@pytest.mark.usefixtures("complete")
def test_bits(lowering):
    names = ("median", "nanmedian", "mode", "topk", "sort", "descending")
    for dtype, shape in ((np.float32, (1100, 3)), (np.int8, (600, 2))):
        x = drawn(shape, dtype)
        with LOWERINGS[lowering]():
            for name, got in everything(x, 0, names).items():
                check(name, x, 0, got)


def test_the_sort_of_a_cpu_is_the_one_of_other_devices():
    for dtype in (np.float32, np.int16, np.uint8):
        keys = jnp.asarray(drawn((3, 200), dtype).view(f"u{np.dtype(dtype).itemsize}"))
        want = np.argsort(np.asarray(keys), 1, kind="stable").astype(np.int32)
        for function in (rank_lowerings.stable_argsort, rank_lowerings.packed_argsort):
            assert_same_bits(jax.jit(function)(keys), want)


def test_the_number_of_all_is_the_first_of_its_equals_on_every_path():
    x = np.array([1, -0.0, 0.0, -1, 0.0], np.float32)
    both = jax.jit(lambda x: (impl.median(x), impl.nanmedian(x[::-1])))
    # With the mode off and on, by XLA and by kernels.
    for on, lowering in ((True, "native"), (False, "seed 1"), (False, "seed 2")):
        with impl.deterministic(on, profile="complete"), LOWERINGS[lowering]():
            for got, want in zip(both(x), (x[1], x[4]), strict=True):
                assert_same_bits(got, want)


def test_kernels():
    x = jnp.ones((4, 3))
    for mode, name in ((False, "select_atomic_any"), (True, "select_ordered_first")):
        with impl.deterministic(mode, profile="complete"):
            for op in (impl.median, impl.nanmedian):
                assert kernels(lower(lambda x, op=op: op(x, 0), x)) == {name}
                assert kernels(lower(op, x)) == {"select_ordered_first"}
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


# Derivatives.

APART = np.random.default_rng(1).permutation(np.arange(24, dtype=np.float32)).reshape(6, 4)


@pytest.mark.parametrize("name", PICKS)
def test_a_gradient_goes_to_what_was_picked(name):
    x = drawn((6, 4), np.float32, seed=3)
    values, index = wanted(name, x, 0)
    weight = np.arange(1, values.size + 1, dtype=np.float32).reshape(values.shape)
    want = np.zeros_like(x)
    rows = index.reshape(-1, 4)
    np.put_along_axis(want, rows, weight.reshape(rows.shape), axis=0)

    def picked(x):
        return PICKS[name][0](impl, x, 0).values

    _, pullback = jax.vjp(jax.jit(picked), x)
    assert_same_bits(pullback(jnp.asarray(weight))[0], want)
    dot = jax.jvp(picked, (x,), (APART,))[1]
    assert_same_bits(dot, np.take_along_axis(APART, rows, 0).reshape(values.shape))


#: Numbers of which two or three are the median; and NaNs.
SHARES = np.array(
    [[0, 1, -0.0, 2, 0, -5], [5, 2, 5, 2, 1, 9], [np.nan, 1, np.nan, 1, 1, 2], [np.nan] * 6],
    np.float32,
)


@functools.partial(jax.jit, static_argnums=1)
def shares(x, op):
    """The gradients of rows, and the derivatives in a direction in which two numbers grow."""
    dots = jnp.resize(jnp.asarray([0, 0, 3, 3, 0, 0], x.dtype), x.shape)
    return jax.vmap(jax.grad(op))(x), jax.vmap(lambda a, t: jax.jvp(op, (a,), (t,))[1])(x, dots)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_equals_share_the_gradient_of_a_number(dtype):
    x = SHARES.astype(dtype)
    for op, medians in ((impl.median, [0, 2, np.nan, np.nan]), (impl.nanmedian, [0, 2, 1, np.nan])):
        equal = (x == np.array(medians)[:, None]) | (np.isnan(x) & np.isnan(medians)[:, None])
        gradient, dot = shares(x, op)
        count = equal.sum(1, keepdims=True).astype(dtype)
        assert_same_bits(gradient, equal / count)
        assert_same_bits(dot, (equal[:, 2:4].sum(1) * dtype(3) / count[:, 0]).astype(dtype))


def test_the_second_derivative_of_a_median():
    square = jax.jit(jax.hessian(lambda x: impl.median(x) ** 2))(SHARES[1, :4])
    want = np.zeros((4, 4), np.float32)
    want[1::2, 1::2] = 0.5
    assert_same_bits(square, want)


def loss(x):
    picked = [PICKS[name][0](impl, x, 0).values for name in ("nanmedian", "mode", "least")]
    return sum((p**2).sum() for p in picked) + impl.median(x)


@pytest.mark.parametrize("lowering", ["native", "seed 1"])
def test_vmap_has_the_bits_of_single_calls(lowering):
    names = ("nanmedian", "mode", "topk", "descending")
    x = drawn((3, 6, 4), np.float32)

    def calls(x):
        return everything(x, 0, names), impl.median(x)

    with LOWERINGS[lowering]():
        got = jax.jit(jax.vmap(calls, in_axes=-1, out_axes=-1))(np.moveaxis(x, 0, -1))
        single = jax.jit(calls)
        want = jax.tree.map(lambda *parts: np.stack(parts, -1), *map(single, x))
        jax.tree.map(assert_same_bits, got, want)


def test_vmap_of_gradients_and_of_nothing():
    two = np.stack([APART, APART[::-1]])
    single = jax.jit(jax.grad(loss))
    assert_same_bits(jax.jit(jax.vmap(jax.grad(loss)))(two), np.stack([*map(single, two)]))
    assert jax.vmap(lambda x: impl.topk(x, 2))(two[:0]).values.shape == (0, 6, 2)


def test_checkpoint_and_shard_map_have_the_bits_of_a_plain_call():
    want = jax.jit(jax.grad(loss))(APART)
    assert_same_bits(jax.jit(jax.grad(jax.checkpoint(loss)))(APART), want)
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    mapped = jax.shard_map(
        lambda x: jnp.broadcast_to(loss(x), (1,)),
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec("d"),
    )
    assert_same_bits(jax.jit(jax.grad(lambda x: mapped(x).sum()))(APART), want)


# The peer.


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="values are compared with PyTorch's")


def as_tensor(torch, x):
    if x.dtype == bfloat16:
        return torch.from_numpy(x.astype(np.float32)).bfloat16()
    return torch.from_numpy(x)


@pytest.mark.parametrize(
    "dtype", [np.float32, bfloat16, np.uint8, bool], ids=lambda d: np.dtype(d).name
)
@pytest.mark.usefixtures("complete")
def test_torch_picks_the_same_values(torch, dtype):
    x = drawn((9, 6), dtype)
    if np.isnan(x.astype(np.float32)).any():
        x[:, 0] = np.arange(9)  # A column without NaN: its mode has no rule of ours.
    names = OF_BOOLS if dtype is bool else tuple(PICKS)
    for name, got in everything(x, 0, names).items():
        want = PICKS[name][0](torch, as_tensor(torch, x), 0)
        right = want.values.to(torch.float64).numpy()
        if name == "mode":  # PyTorch sorts with NaNs in no order.
            clean = ~np.isnan(x.astype(np.float64)).any(0)
            np.testing.assert_array_equal(np.asarray(got[0])[clean], right[clean])
            continue
        np.testing.assert_array_equal(np.asarray(got[0]).astype(np.float64), right)
        if name in ("sort", "descending"):
            np.testing.assert_array_equal(got[1], want.indices.numpy())
    if dtype is not bool:
        for op in ("median", "nanmedian"):
            own, peer = getattr(impl, op)(x), getattr(torch, op)(as_tensor(torch, x))
            np.testing.assert_array_equal(np.float64(own), float(peer))


def test_torch_has_the_same_gradients(torch):
    for name, (call, _) in PICKS.items():
        x = torch.from_numpy(APART.copy()).requires_grad_()
        values = call(torch, x, 0).values
        weight = torch.arange(1.0, values.numel() + 1).reshape(values.shape)
        if name == "least":  # Not sorted: any order.
            weight = torch.ones_like(weight)
        (values * weight).sum().backward()
        _, pullback = jax.vjp(lambda x, c=call: c(impl, x, 0).values, APART)
        assert_same_bits(pullback(jnp.asarray(weight.numpy()))[0], x.grad.numpy())
    for op in ("median", "nanmedian"):
        rows = torch.from_numpy(SHARES.copy()).requires_grad_()
        sum(getattr(torch, op)(row) for row in rows).backward()
        assert_same_bits(shares(SHARES, getattr(impl, op))[0], rows.grad.numpy())
