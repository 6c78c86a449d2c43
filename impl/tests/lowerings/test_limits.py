"""Arrays too large for a kernel's offsets of 32 bits: XLA computes them, or they are refused.

Programs are traced, and nothing is allocated.
"""

import functools

import jax
import jax.numpy as jnp
import pytest

from impl._families import reductions
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import scan, scatter_accumulate_ordered

LAUNCH = Launch(interpret=True)


def launches(function, *operands):
    """Returns whether the program of a call launches a kernel; operands are shapes and dtypes."""
    shapes = (jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in operands)
    return "pallas_call" in str(jax.make_jaxpr(function)(*shapes))


@pytest.mark.triton
@pytest.mark.parametrize(
    ("shape", "dtype", "small"),
    [
        ((2_000_000, 1025, 1), jnp.float32, True),
        # The kernel writes both parts of complex numbers into one array.
        ((1_000_000, 1025, 1), jnp.complex64, True),
        ((2_000_000, 1025, 1), jnp.complex64, False),
        ((2_100_000, 1025, 1), jnp.float32, False),
        # Offsets of the last tile go beyond the end.
        ((1, 2**31 - 100, 1), jnp.float32, False),
    ],
)
def test_scans(shape, dtype, small):
    ordered = functools.partial(scan.ordered_kernel, by="add", launch=LAUNCH)
    assert launches(ordered, (shape, dtype)) == small


@pytest.mark.triton
def test_scatters_to_more_destinations_than_the_longest_panel_of_int32():
    run = functools.partial(
        scatter_accumulate_ordered.ordered_kernel, reduction=reductions.ADD, launch=LAUNCH
    )
    shapes = [((1, 2**30 + 1, 1), jnp.float32), ((1, 5, 1), jnp.int32), ((1, 5, 1), jnp.float32)]
    assert launches(run, *shapes)
    shapes = [((1, 2**31, 1), jnp.float32), *shapes[1:]]
    with pytest.raises(NotImplementedError, match=f"takes at most {MAX_ELEMENTS} of each"):
        launches(run, *shapes)
