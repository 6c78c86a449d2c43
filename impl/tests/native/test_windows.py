"""Sums and extremes of windows and gradients of pools of the engine ``native``."""

import functools

import jax
import numpy as np
import pytest
from jax import lax

from impl import testing
from impl._exact.sums import windows as other_engine
from impl._native import library, windows
from impl.tests.exact._sums import DTYPES, NARROW, assert_same, rough, run
from impl.tests.exact._windows import (
    NAMES,
    NONE,
    NUMBERS,
    POOLS,
    WINDOWS,
    assert_gradients_of_pools,
    assert_sums_of_windows,
    assert_windows_of_hard_terms,
    options,
    results_of,
)
from spec import oracles

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_windows_have_the_bits_of_the_oracle(rng, dtype):
    assert_sums_of_windows(windows.reduce_window, rng, WINDOWS, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [4, 8, 40])
def test_windows_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype, count):
    assert_windows_of_hard_terms(windows.reduce_window, rng, dtype, count)


def test_windows_of_terms_of_all_exponents(rng):
    exponents = rng.integers(-126, 127, (60, 50))
    x = (rough(rng, (60, 50), spread=0) * np.float32(2.0) ** exponents).astype(np.float32)
    x[1::2] = -x[::2]
    x[:4, 0] = 2.0**127, 2.0**-126, -(2.0**127), 2.0**-126
    case = ((4, 1), (1, 1), (NONE, NONE), (1, 1), (1, 1))
    got = run(lambda x: windows.reduce_window(x, **options(case)), x)
    assert_same(got, oracles.nearest(np.stack([x[i : i + 57] for i in range(4)])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_windows_have_the_bits_of_the_other_engine(rng, dtype):
    x = rough(rng, (4, 40, 40, 24), dtype, 6)
    for case in (
        ((1, 3, 3, 1), (1, 1, 2, 1), (NONE, (1, 1), (0, 1), NONE), (1,) * 4, (1,) * 4),
        ((1, 1, 3, 5), (1, 1, 2, 2), (NONE, NONE, (0, 1), (2, 1)), (1, 1, 1, 2), (1,) * 4),
    ):
        got = run(lambda x: windows.reduce_window(x, **options(case)), x)  # noqa: B023
        want = run(lambda x: other_engine.reduce_window_sum(x, **options(case)), x)  # noqa: B023
        assert_same(got, want)


@pytest.mark.usefixtures("portable")
@pytest.mark.parametrize("dtype", NARROW)
def test_extremes_of_windows_have_the_bits_of_the_other_engine(rng, dtype):
    arrays = {name: rng.choice(NUMBERS, each[0]) for name, each in WINDOWS.items()}
    arrays = {name: x.astype(DTYPES[dtype]) for name, x in arrays.items()}

    def extremes(given):
        return {
            (name, function.__name__): lax.reduce_window(
                x, np.array(start, x.dtype), function, *WINDOWS[name][1:]
            )
            for name, x in given.items()
            for start, function in ((-np.inf, lax.max), (np.inf, lax.min))
        }

    native = jax.jit(extremes).lower(arrays)
    assert "samebits_pool" in native.as_text()
    got = native.compile()(arrays)
    with testing.engine("float64"):
        want = jax.jit(extremes)(arrays)
    for name, expected in want.items():
        assert np.asarray(got[name]).tobytes() == np.asarray(expected).tobytes(), name


@pytest.mark.parametrize(
    ("of_image", "dtype"),
    [
        ("float32", "float32"),
        ("bfloat16", "float32"),
        ("float16", "bfloat16"),
        ("float64", "float64"),
    ],
)
def test_gradients_of_pools_have_the_bits_of_the_oracle(rng, of_image, dtype):
    assert_gradients_of_pools(windows.select_and_scatter_add, rng, POOLS, of_image, dtype)


def test_large_pools_have_the_bits_of_the_other_engine(rng):
    for shape, case in (
        ((3, 33, 33, 24), ((1, 3, 3, 1), (1, 2, 2, 1), (NONE, (1, 1), (1, 1), NONE))),
        ((3, 24, 33, 33), ((1, 1, 3, 3), (1, 1, 2, 1), (NONE, NONE, (1, 1), (0, 2)))),
        ((70_000,), ((3,), (2,), ((1, 1),))),
        ((300_000, 2), ((4, 1), (3, 1), ((1, 1), NONE))),
    ):
        x = rng.integers(-5, 5, shape).astype(np.float32)
        source = rough(rng, results_of(shape, *case), spread=40)
        source.reshape(-1)[::7] = -source.reshape(-1)[0]
        arguments = dict(zip(NAMES[:3], case, strict=True), select_prim=lax.ge_p)
        got = run(functools.partial(windows.select_and_scatter_add, **arguments), source, x)
        want = run(functools.partial(other_engine.select_and_scatter_add, **arguments), source, x)
        assert_same(got, want, str(shape))


def test_what_the_engine_has_no_call_for():
    x = np.ones((4,), np.float32)
    case = {"window_dimensions": (2,), "window_strides": (2,), "padding": (NONE,)}
    dilations = {"base_dilation": (1,), "window_dilation": (1,)}
    assert windows.select_and_scatter_add(x[:2], x, select_prim=lax.gt_p, **case) is None
    integers = x.astype(np.int32)
    assert windows.select_and_scatter_add(x[:2], integers, select_prim=lax.ge_p, **case) is None
    assert windows.reduce_window(integers, **case, **dilations) is None


def test_windows_of_nothing():
    case = options(((3, 1), (1, 1), (NONE, NONE), (1, 1), (1, 1)))
    got = run(lambda x: windows.reduce_window(x, **case), np.zeros((2, 5), np.float32))
    assert got.shape == (0, 5)
    case["padding"] = ((0, 2), NONE)
    got = run(lambda x: windows.reduce_window(x, **case), np.zeros((2, 0), np.float32))
    assert got.shape == (2, 0)
