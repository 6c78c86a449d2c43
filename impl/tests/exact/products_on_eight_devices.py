"""Exact products on 1, 2, 4 and 8 devices; ``test_devices`` runs it."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl.tests.exact._products import MATRICES, rough
from impl.tests.support.bits import assert_all_same_bits

CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
WINDOW = {"window_strides": (1, 1), "padding": ((1, 1), (1, 1))}


def program(lhs, rhs, images, kernel):
    """Returns products of both precisions, of many terms, and a convolution with its gradient."""
    numbers = lax.conv_dimension_numbers(images.shape, kernel.shape, CHANNELS_LAST)
    gradient = lax.conv_dimension_numbers(images.shape, images.shape, ("CHWN", "IHWO", "HWNC"))
    return (
        dot_general.dot_general(lhs, rhs, dimension_numbers=MATRICES),
        dot_general.dot_general(lhs, rhs, dimension_numbers=MATRICES, precision="highest"),
        convolution.conv_general_dilated(images, kernel, dimension_numbers=numbers, **WINDOW),
        convolution.conv_general_dilated(images, images, dimension_numbers=gradient, **WINDOW),
    )


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(0)
    shapes = ((8, 8200), (8200, 8), (8, 5, 4, 8), (3, 3, 8, 16))
    return [rough(rng, shape) for shape in shapes]


@pytest.fixture(scope="module")
def expected(operands):
    with arithmetic.wide():
        return jax.jit(program)(*operands)


@pytest.mark.parametrize(
    ("devices", "specs"),
    [
        (2, (P("d"), P(), P("d"), P())),
        (4, (P(None, "d"), P("d"), P(None, None, None, "d"), P(None, None, "d"))),
        (8, (P(), P(None, "d"), P("d"), P())),
    ],
    ids=["batch", "contracted", "outputs"],
)
def test_the_bits_are_those_of_one_device(operands, expected, devices, specs):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    shardings = [NamedSharding(mesh, spec) for spec in specs]
    with arithmetic.wide():
        got = jax.jit(program, in_shardings=shardings)(*operands)
    assert_all_same_bits(got, expected)
