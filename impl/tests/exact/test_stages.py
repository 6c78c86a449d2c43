"""Products in two stages, whose chains are short; no bit of a result changes."""

import math

import numpy as np
import pytest
from jax import lax

from impl._exact.nearest import stages
from impl._exact.products import dot_general
from impl.tests.exact._sums import assert_same, rough, run
from spec import oracles

SHAPES = {
    "one axis": ((65536,), (0,), 512),
    "two axes": ((16, 4096), (0, 1), 512),
    "a kept axis between": ((96, 3, 1000), (0, 2), None),
    "axes in another order": ((40, 2, 60), (2, 0), None),
    "a prime number": ((9973,), (0,), 9973),
    "few terms": ((8, 100), (0, 1), 800),
}


def made(name):
    shape, axes, depth = SHAPES[name]
    return shape, axes, stages.Stages.of([shape[axis] for axis in axes]), depth


@pytest.mark.parametrize("name", SHAPES)
def test_chains_are_short_where_the_number_of_terms_has_divisors(name):
    shape, axes, two, depth = made(name)
    count = math.prod(shape[axis] for axis in axes)
    if depth == count:
        assert two is None
        return
    assert two.first * two.second == count
    assert two.depth == two.first + two.second
    assert two.depth == depth or depth is None
    assert two.depth < count / 4


@pytest.mark.parametrize("number", [1, 2, 12, 36, 97, 1000])
def test_divisors_are_found_up_to_the_root(number):
    want = [each for each in range(1, number + 1) if number % each == 0]
    assert stages.divisors(number) == want


def test_the_second_stage_has_few_results():
    assert stages.Stages.of([65536], 16) == stages.Stages(0, 16, 16, 4096)
    assert stages.Stages.of([65536], 1) is None


@pytest.mark.parametrize(
    ("left", "right", "numbers"),
    [
        ((16384, 2), (16384, 3), (((0,), (0,)), ((), ()))),
        ((2, 16384), (16384, 1), (((1,), (0,)), ((), ()))),
        ((4, 2, 2304), (2304, 3, 4), (((0, 2), (2, 0)), ((), ()))),
        ((128, 2, 96, 3), (2, 96, 128), (((0, 2), (2, 1)), ((1,), (0,)))),
    ],
)
def test_long_products_have_the_bits_of_the_oracle(rng, monkeypatch, left, right, numbers):
    monkeypatch.setattr(dot_general._Layout, "most_parts", 64)
    a, b = rough(rng, left), rough(rng, right)
    asked = []
    of = stages.Stages.of
    monkeypatch.setattr(stages.Stages, "of", lambda *args: asked.append(of(*args)) or asked[-1])
    got = run(lambda a, b: dot_general.dot_general(a, b, dimension_numbers=numbers), a, b)
    assert asked[0] is not None
    plain = run(lambda a, b: lax.dot_general(a, b, numbers), a.astype("d"), b.astype("d"))
    assert got.shape == plain.shape
    assert_same(got, _rounded_product(a, b, numbers))


def _rounded_product(a, b, numbers):
    """Returns the product by the oracle: terms first, then the dimensions of the result."""
    (a_sum, b_sum), (a_batch, b_batch) = numbers
    letters = iter("abcdefghijklmn")
    of_a = [next(letters) for _ in a.shape]
    of_b = [None] * b.ndim
    for i, j in zip((*a_sum, *a_batch), (*b_sum, *b_batch), strict=True):
        of_b[j] = of_a[i]
    of_b = [letter or next(letters) for letter in of_b]
    summed, batch = [of_a[d] for d in a_sum], [of_a[d] for d in a_batch]
    free = [letter for letter in (*of_a, *of_b) if letter not in {*summed, *batch}]
    terms = np.einsum(
        f"{''.join(of_a)},{''.join(of_b)}->{''.join((*summed, *batch, *free))}",
        a.astype(np.float64),
        b.astype(np.float64),
    )
    return oracles.nearest(terms.reshape(-1, *terms.shape[len(summed) :]), np.float32)
