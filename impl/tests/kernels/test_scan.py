"""The kernels of scans.

Tests: impl._families.scan_source, impl._kernels.scan_tiles.
"""

import functools

import jax
import numpy as np
import pytest

from impl._families.scan_combines import COMBINES, joined, split
from impl._kernels import scan_tiles
from impl._kernels.launch import Launch
from impl._lowerings import scan as scan_lowerings
from impl._lowerings import scan_extreme
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import near_one, spread
from impl.tests.support.references import along, cumulative_product
from spec import oracles


def tiles(launch, kernel, name, parts, shape, **options):
    values = tuple(floats(*shape) for _ in range(parts))
    combine = functools.partial(COMBINES[name], product=launch.product)
    results = tuple(range(parts))
    return kernel(values, combine, block=16, results=results, launch=launch, **options)


#: Calls of each kernel, with sizes that fill no tile, and several tiles.
CALLS = {
    scan_tiles.scan: [
        functools.partial(tiles, name="add", parts=1, shape=(3, 5, 1), reverse=True),
        functools.partial(tiles, name="add", parts=1, shape=(1, 260, 3)),
    ],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])


@pytest.mark.parametrize(
    ("shape", "reverse"),
    [((1, 1, 1), True), ((3, 300, 1), True), ((1, 70_000, 1), False), ((2, 300, 40), True)],
)
def test_tiles_of_every_kind(shape, reverse):
    values = spread(np.random.default_rng(0), shape)
    values[:, :2] = values[:, -2:] = -0.0
    got = jax.jit(
        lambda x: tiles_of(x, "add", shape, reverse=reverse),
    )(values)
    steps = values[:, ::-1] if reverse else values
    want = along(oracles.blocked_scan, steps, 1)
    assert_same_bits(got, want[:, ::-1] if reverse else want)


@pytest.mark.once
@pytest.mark.parametrize("by", ["min", "max"])
@pytest.mark.parametrize("dtype", ["uint32", "bfloat16"])
def test_extremes_are_compared_in_a_dtype_that_has_them(dtype, by):
    values = np.random.default_rng(0).integers(0, 2**32, (2, 20, 1), np.uint32)
    values = jax.numpy.asarray(values).astype(dtype)
    want = scan_extreme.extreme_xla(values, by=by)
    for got, expected in zip(
        scan_extreme.extreme_kernel(values, by=by, launch=Launch(True, 3)), want, strict=True
    ):
        assert_same_bits(got, expected)


@pytest.mark.once
@pytest.mark.parametrize(
    ("reverse", "dtype"), [(False, "float32"), (True, "float32"), (True, "complex64")]
)
def test_lagged_factors_are_those_of_the_step_before(reverse, dtype):
    factors, terms = (near_one((3, 18 + seed, 1), np.dtype(dtype))[:, seed:] for seed in (1, 2))
    options = {"by": "affine", "reverse": reverse}
    run = functools.partial(scan_lowerings.ordered_kernel, launch=Launch(True, 3), **options)
    want = jax.jit(run)(scan_lowerings.shifted(jax.numpy.asarray(factors), reverse=reverse), terms)
    assert_same_bits(jax.jit(functools.partial(run, lagged=True))(factors, terms), want)
    whole = functools.partial(scan_lowerings.ordered_xla, lagged=True, **options)
    assert_same_bits(jax.jit(whole)(factors, terms), want)


@pytest.mark.once
@pytest.mark.parametrize(
    ("by", "transposed", "reverse", "shape"),
    [
        ("mul", False, True, (2, 19, 1)),
        ("mul", True, False, (2, 19, 1)),
        ("logaddexp", False, False, (2, 19, 1)),
        ("logaddexp", True, True, (2, 19, 1)),
        ("logaddexp", True, False, (1, 260, 2)),  # with totals
    ],
)
def test_tangents_are_made_in_a_kernel_with_the_bits_of_whole_arrays(
    by, transposed, reverse, shape
):
    values, dot = (spread(np.random.default_rng(seed), shape) for seed in (0, 1))
    values[:, 4] = values[:, -1] = -np.inf if by == "logaddexp" else 0
    how = {"by": by, "reverse": reverse}
    out = jax.jit(functools.partial(scan_lowerings.ordered_xla, **how))(values)
    how["transposed"] = transposed
    whole = jax.jit(functools.partial(scan_lowerings.tangents_xla, **how))(values, out, dot)
    run = functools.partial(scan_lowerings.tangents_kernel, launch=Launch(True, 3), **how)
    assert_same_bits(jax.jit(run)(values, out, dot), whole)


def test_tiles_of_complex_numbers():
    values = near_one((3, 20, 1), np.complex64)
    got = jax.jit(lambda x: tiles_of(x, "mul", values.shape, together=2))(values)
    assert_same_bits(got, along(cumulative_product, values, 1))


@pytest.mark.once
def test_totals_of_complex_numbers():
    values = near_one((1, 260, 2), np.complex64)
    got = jax.jit(lambda x: tiles_of(x, "add", values.shape, together=2))(values)
    want = [along(oracles.blocked_scan, part, 1) for part in (values.real, values.imag)]
    assert_same_bits(got, joined(want))


def tiles_of(values, name, shape, **options):
    launch = Launch(interpret=True, seed=1)
    parts = split(values.reshape(shape))
    combine = functools.partial(COMBINES[name], product=launch.product)
    results = tuple(range(len(parts)))
    return joined(
        scan_tiles.scan(parts, combine, block=16, results=results, launch=launch, **options)
    )
