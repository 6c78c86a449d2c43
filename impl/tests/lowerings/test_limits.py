"""Arrays too large for a kernel's offsets of 32 bits: XLA computes them, or they are refused.

Programs are traced, and nothing is allocated.
"""

import functools

import jax
import jax.numpy as jnp
import pytest

from impl._families import reductions
from impl._families.convolution_window import ConvolutionWindow
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import convolution, scatter_accumulate_ordered, select_kth

LAUNCH = Launch(interpret=True)


def launches(function, *operands):
    """Returns whether the program of a call launches a kernel; operands are shapes and dtypes."""
    shapes = (jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in operands)
    return "pallas_call" in str(jax.make_jaxpr(function)(*shapes))


@pytest.mark.triton
@pytest.mark.parametrize(("rows", "small"), [(40_000, True), (50_000, False)])
def test_selections(rows, small):
    find = functools.partial(select_kth.ordered_kernel, launch=LAUNCH)
    assert launches(find, ((rows, 50_000, 1), jnp.uint8), ((rows, 1, 1), jnp.int32)) == small


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


def test_convolutions_of_one_large_image():
    size, one = (420, 420, 420), (1, 1, 1)
    window = ConvolutionWindow(size, size, (3, 3, 3), one, one, one, 1)
    run = functools.partial(
        convolution.ordered_kernel, role="result", window=window, precision="highest", launch=LAUNCH
    )
    kernel = ((32, 32, 3, 3, 3), jnp.float32)
    with pytest.raises(NotImplementedError, match=f"at most {MAX_ELEMENTS} elements"):
        launches(run, ((1, 32, *size), jnp.float32), kernel)
