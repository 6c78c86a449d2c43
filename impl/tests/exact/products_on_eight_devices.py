"""Products on 1, 2, 4 and 8 devices; ``impl/tests/portable/test_ops`` runs it."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl.tests.exact._products import MATRICES, rough
from impl.tests.exact._sums import assert_same
from impl.tests.exact._terms import hard_matrix
from spec import oracles

CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
WINDOW = {"window_strides": (1, 1), "padding": ((1, 1), (1, 1))}


def program(lhs, rhs, images, kernel, hard):
    """Returns products of many and of hard terms, and a convolution with its gradient."""
    numbers = lax.conv_dimension_numbers(images.shape, kernel.shape, CHANNELS_LAST)
    gradient = lax.conv_dimension_numbers(images.shape, images.shape, ("CHWN", "IHWO", "HWNC"))
    return (
        dot_general.dot_general(lhs, rhs, dimension_numbers=MATRICES),
        dot_general.dot_general(hard.T, hard, dimension_numbers=MATRICES),
        convolution.conv_general_dilated(images, kernel, dimension_numbers=numbers, **WINDOW),
        convolution.conv_general_dilated(images, images, dimension_numbers=gradient, **WINDOW),
    )


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(0)
    shapes = ((8, 8200), (8200, 8), (8, 5, 4, 8), (3, 3, 8, 16))
    return [*(rough(rng, shape) for shape in shapes), hard_matrix(rng, 64)]


@pytest.fixture(scope="module")
def expected(operands):
    with arithmetic.wide():
        results = [np.asarray(result) for result in jax.jit(program)(*operands)]
    lhs, rhs, *_, hard = operands
    assert_same(results[0], oracles.nearest_product(lhs, rhs, np.float32))
    assert_same(results[1], oracles.nearest_product(hard.T, hard, np.float32))
    return results


@pytest.mark.parametrize(
    ("devices", "specs"),
    [
        (2, (P("d"), P(), P("d"), P(), P("d"))),
        (4, (P(None, "d"), P("d"), P(None, None, None, "d"), P(None, None, "d"), P("d"))),
        (8, (P(), P(None, "d"), P("d"), P(), P())),
    ],
    ids=["batch", "contracted", "outputs"],
)
def test_the_bits_are_those_of_one_device(operands, expected, devices, specs):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("d",))
    shardings = [NamedSharding(mesh, spec) for spec in specs]
    with arithmetic.wide():
        got = jax.jit(program, in_shardings=shardings)(*operands)
    for each, want in zip(got, expected, strict=True):
        assert_same(each, want)
