"""histc: values, bad arguments, transformations, bits."""

import functools
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import assert_same_bits
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
nan, inf = np.nan, np.inf


def floats(*values, dtype=np.float32):
    return np.array(values, dtype)


# histc

#: Compiled once for each shape and number of bins.
compiled = functools.partial(jax.jit, static_argnums=1)(impl.histc)

#: Input, bins, range. Quarters stand on the edges of bins.
NORMAL = RNG.standard_normal(600).astype(np.float32)
QUARTERS = np.round(NORMAL * 4) / 4
MANY = [
    (data, bins, *ends)
    for data, bins, ends in itertools.product(
        [NORMAL, QUARTERS, NORMAL * 1e-3, NORMAL * 1e6],
        [7, 100],
        [(0, 0), (-1, 1), (-0.3, 0.7), (0.1, 0.9), (2, 2)],
    )
]
FEW = [
    (NORMAL.reshape(20, 30), 4, -1, 2),
    (floats(1, 1, 1, 1), 4, 0, 0),
    (floats(3)[0], 4, 1, 5),
    (floats(), 4, 0, 0),
    (floats(nan, 1, inf, -inf), 4, 0, 2),
    (floats(0, 1, 2, 4), 4, 0, 0),
    (floats(-1, 0, 2, 3), 4, False, np.float32(2)),
]


def histogram(x, bins, low, high):
    """The counts, by the arithmetic that the op states."""
    wide = x.astype(np.float32 if x.dtype.itemsize < 4 else x.dtype).reshape(-1)
    low, high = (x.dtype.type(end).astype(wide.dtype) for end in (low, high))
    if low == high and x.size:
        low, high = wide.min(), wide.max()
    if low == high:
        low, high = low - 1, high + 1
    with np.errstate(all="ignore"):
        place = (wide - low) * wide.dtype.type(bins) / (high - low)
    counted = (wide >= low) & (wide <= high)
    kept = np.minimum(place[counted].astype(int), bins - 1)
    return np.bincount(kept, minlength=bins).astype(x.dtype)


def test_histc():
    for x, bins, *ends in MANY:
        got = compiled(x, bins, *map(np.float32, ends))
        assert_same_bits(got, histogram(x, bins, *ends))
    for x, *arguments in FEW:
        assert_same_bits(impl.histc(x, *arguments), histogram(x, *arguments))
    assert impl.histc(floats()).shape == (100,)
    assert_same_bits(impl.histc(max=2, bins=4, input=floats(1, 2, 0, 5)), floats(1, 0, 1, 1))


def test_the_reference_of_histc_is_pytorch():
    torch = pytest.importorskip("torch")
    for x, *arguments in MANY + FEW:
        want = torch.histc(torch.from_numpy(np.asarray(x)), *arguments).numpy()
        assert_same_bits(histogram(x, *arguments), want)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_histc_of_narrow_floats(dtype):
    x = NORMAL.astype(dtype)
    got = impl.histc(x, 9, -0.7, 0.9)
    assert_same_bits(got, histogram(x, 9, -0.7, 0.9))
    # An end of the range is kept as x is, and so is in it.
    assert impl.histc(floats(0.1, dtype=dtype), 2, 0.1, 0.2).tolist() == [1, 0]
    # Adding ones in the dtype of the result would end at 256 for bfloat16.
    assert impl.histc(np.zeros(3000, dtype), 1, 0, 1)[0] == np.array(3000, dtype)


def test_histc_of_doubles():
    with jax.enable_x64(True):
        x = RNG.standard_normal(600)
        assert_same_bits(impl.histc(x, 11, -0.3, 0.7), histogram(x, 11, -0.3, 0.7))


def exact(x, bins, low, high):
    """The counts of integers, by those of Python."""
    if low == high:
        low, high = int(x.min()), int(x.max())
    inside = [int(v) - low for v in x if low <= v <= high]
    places = [min(v * bins // (high - low), bins - 1) for v in inside]
    return np.bincount(places, minlength=bins).astype(x.dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.uint64])
def test_histc_of_integers(dtype):
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max, 200, dtype, endpoint=True)
    x[:2] = limits.min, limits.max
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        for bins, ends in itertools.product(
            [3, 100003], [(0, 0), (3, 100), (int(limits.min) // 2, int(limits.max) // 3)]
        ):
            got = compiled(x, bins, *(np.array(end).astype(dtype) for end in ends))
            assert_same_bits(got, exact(x, bins, *ends))
        # One below the least is beyond 32 and 64 bits. A count wraps around as other sums do.
        counts = compiled(np.full(200, limits.min, dtype), 3).tolist()
        assert counts == ([0, 200 - 256, 0] if dtype is np.int8 else [200, 0, 0])


def test_the_range_of_integers():
    few = np.arange(5)
    # A fraction is cut off, as where PyTorch counts integers.
    assert impl.histc(few, 3, 0.5, 2.5).tolist() == [1, 1, 1]
    assert impl.histc(few, 3).tolist() == [2, 1, 2]


@pytest.mark.usefixtures("path")
def test_counts_are_those_of_panel_order():
    x = RNG.standard_normal(2500).astype(np.float32)
    place = np.where((x >= 0) & (x <= 1), np.minimum(np.trunc(x * 5), 4), -1).astype(int)
    want = oracles.panel(np.zeros(5, np.float32), place, np.ones(2500, np.float32))
    assert_same_bits(jax.jit(lambda x: impl.histc(x, 5, 0, 1))(x), want)


def test_histc_under_transformations():
    many = np.stack([NORMAL, 2 * NORMAL, QUARTERS])
    lows, highs = floats(0, -1, 0), floats(0, 1, 2)
    want = [histogram(x, 5, *ends) for x, *ends in zip(many, lows, highs, strict=True)]
    got = jax.vmap(lambda x, low, high: compiled(x, 5, low, high))(many, lows, highs)
    assert_same_bits(got, np.stack(want))
    out, tangent = jax.jvp(lambda x: compiled(x, 5), (NORMAL,), (NORMAL,))
    assert_same_bits(out, want[0])
    assert not np.any(tangent)
    loss = jax.checkpoint(lambda x: (impl.histc(x, 5) * x[:5]).sum())
    assert_same_bits(jax.jit(jax.grad(loss))(NORMAL), np.pad(want[0], (0, 595)))


def test_a_range_that_is_none_counts_nothing_under_jit():
    count = jax.jit(lambda x, low, high: impl.histc(x, 3, low, high))
    assert count(floats(0, 1), 0.0, 0.0).tolist() == [1, 0, 1]
    for x, *ends in [
        (floats(0, 1), 1.0, 0.0),
        (floats(0, 1), nan, 1.0),
        (floats(0, 1), 0.0, inf),
        (floats(0, nan), 0.0, 0.0),
        (floats(0, inf), 0.0, 0.0),
    ]:
        assert count(x, *ends).tolist() == [0, 0, 0]


V = floats(1)
BAD_HISTC: list[tuple[Any, ...]] = [
    ((V, 0), {}, RuntimeError, "bins must be > 0, but got 0"),
    ((V, 2.0), {}, TypeError, "'bins' must be int, not float"),
    ((V, True), {}, TypeError, "'bins' must be int, not bool"),
    ((V, 4, 2, 1), {}, RuntimeError, "max must be larger than min"),
    ((V, 4, 0, inf), {}, RuntimeError, "range of [0.0, inf] is not finite"),
    ((V, 4, nan, 1), {}, RuntimeError, "is not finite"),
    ((floats(nan, 1), 4), {}, RuntimeError, "range of [nan, nan] is not finite"),
    ((floats(inf, 1), 4), {}, RuntimeError, "range of [1.0, inf] is not finite"),
    ((V, 4, "0", 1), {}, TypeError, "'min' must be Number, not str"),
    ((V, 4, 1j, 1), {}, RuntimeError, "'min' cannot be converted to float32"),
    (([1.0], 4), {}, TypeError, "'input' must be"),
    ((np.ones(2, bool), 4), {}, NotImplementedError, "bool in argument 'input'"),
    ((np.ones(2, np.complex64), 4, 0, 1), {}, NotImplementedError, "complex64"),
]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "fragment"), BAD_HISTC, ids=[bad[-1] for bad in BAD_HISTC]
)
def test_bad_arguments_of_histc(arguments, options, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        impl.histc(*arguments, **options)
    assert type(raised.value) is error
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(error) as raised:
        torch.histc(*tensors, **options)
    assert type(raised.value) is error


def test_a_known_range_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="max must be larger"):
        jax.jit(lambda x: impl.histc(x, 4, 2, 1))(V)
