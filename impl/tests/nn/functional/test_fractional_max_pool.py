"""fractional_max_pool2d and fractional_max_pool3d; ``test_pooling`` has properties of all pools."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal, ones
from impl.tests.nn.support.maxima import (
    with_ties,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

OPS = {"fractional_max_pool2d": 2, "fractional_max_pool3d": 3}


def test_fractional_max_pool2d_draws_samples_from_a_key():
    x, key = normal((2, 3, 9, 8)), jax.random.key(7)
    samples = jax.random.uniform(key, (6, 2)).reshape(2, 3, 2)
    given = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, _random_samples=samples))
    drawn = jax.jit(lambda x, key: F.fractional_max_pool2d(x, 3, 4, key=key))
    want = given(x, samples)
    assert_same_bits(drawn(x, key), want)
    assert (drawn(x, jax.random.key(8)) != want).any()
    with pytest.raises(ValueError, match=r"shape \[1, 3, 2\]; got neither"):
        F.fractional_max_pool2d(x[0], 3, 4)


def test_invalid_samples_of_fractional_max_pool2d_read_nothing_outside_the_input():
    x = with_ties((2, 1, 9, 8))
    op = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, None, True, samples))
    for sample in (np.nan, -3.5, 7.0, np.inf, 1e30):
        out, indices = op(x, np.full((2, 1, 2), sample, np.float32))
        indices = np.asarray(indices).reshape(2, -1)
        assert indices.min() >= 0
        assert indices.max() < 72
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), indices, 1), out.reshape(2, -1))


def test_vmap_over_the_samples_of_fractional_max_pool2d_keeps_the_bits():
    x, samples = normal((1, 2, 7, 6)), np.random.default_rng(0).random((3, 1, 2, 2), np.float32)

    def op(samples):
        return F.fractional_max_pool2d(x, 3, (4, 3), _random_samples=samples)

    assert_same_bits(jax.jit(jax.vmap(op))(samples), np.stack(list(map(op, samples))))


HW, DHW = ones(3, 6, 6), ones(3, 6, 6, 6)
U = ones(1, 3, 2) / 2
#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[Call] = [
    ("fractional_max_pool2d", (ones(1, 2, 3, 6, 6), 2, 3), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("fractional_max_pool2d", (ones(2, 0, 6, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool3d", (ones(0, 6, 0, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool2d", (HW, 2), {}, ValueError, "output_ratio, but got neither"),
    ("fractional_max_pool3d", (DHW, 2, -1), {}, RuntimeError, "equal to 0, but got [-1, -1, -1]"),
    ("fractional_max_pool2d", (HW, 2, 6), {}, RuntimeError, "be at most the input's size and 1"),
    ("fractional_max_pool3d", (DHW, 2, 5), {}, RuntimeError, "at most the input's size"),
    ("fractional_max_pool2d", (HW, (2, 7), 1), {}, RuntimeError, "kernel_size [2, 7] is too large"),
    ("fractional_max_pool2d", (HW, (2,), 3), {}, RuntimeError, "'kernel_size' must be an int or 2"),
    ("fractional_max_pool3d", (DHW, (2, 2), 3), {}, RuntimeError, "an int or 3 of them"),
    ("fractional_max_pool2d", (HW, 2, (3, 3, 3)), {}, RuntimeError, "'output_size' must be an int"),
    ("fractional_max_pool2d", (HW, 2.0, 3), {}, TypeError, "'kernel_size' must be int, not float"),
    ("fractional_max_pool2d", (HW, 2, "3"), {}, TypeError, "'output_size' must be int, not str"),
    (
        "fractional_max_pool2d",
        (HW, 2),
        {"output_ratio": (0.5, 0.5, 0.5)},
        ValueError,
        "a number or 2 of them",
    ),
    ("fractional_max_pool2d", (HW.astype(int), 2, 3), {}, NotImplementedError, "for int"),
    *(
        ("fractional_max_pool2d", (HW, 2, 3, None, False, samples), {}, RuntimeError, fragment)
        for samples, fragment in [
            (ones(1, 3, 3), "of shape [1 or more, 3, 2], but got [1, 3, 3]"),
            (ones(1, 2, 2), "but got [1, 2, 2]"),
            (ones(3, 2), "but got [3, 2]"),
            (ones(0, 3, 2), "but got [0, 3, 2]"),
            (ones(1, 3, 2, dtype=np.float16), "the dtype of input, float32, but got float16"),
        ]
    ),
    ("fractional_max_pool2d", (HW, 2, 3, None, False, [0.5]), {}, TypeError, "'_random_samples'"),
]  # fmt: skip
#: Arguments that PyTorch accepts, or that only impl has.
BAD_HERE: list[Call] = [
    ("fractional_max_pool2d", (HW[0], 2, 3), {}, RuntimeError, "got shape [6, 6]"),
    ("fractional_max_pool2d", (HW, 0, 3), {}, RuntimeError, "kernel_size should be greater than"),
    ("fractional_max_pool2d", (HW, 2, 3, 0.5), {}, ValueError, "output_ratio, but got both"),
    ("fractional_max_pool2d", (HW, 2, 3, None, 1), {}, TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool3d", (DHW, 2, 3), {"key": None}, ValueError, "no hidden random state"),
    (
        "fractional_max_pool2d",
        (HW, 2, 3),
        {"key": np.zeros(2, np.uint32), "_random_samples": U},
        ValueError,
        "got both",
    ),
    *(
        ("fractional_max_pool2d", (HW, 2), {"output_ratio": ratio}, ValueError, "between 0 and 1")
        for ratio in (0, 1, 1.5, -0.5, (0.5, 0.0), float("nan"))
    ),
    ("fractional_max_pool3d", (DHW, 2), {"output_ratio": "1"}, TypeError, "number or 3 of them"),
    ("fractional_max_pool2d", (HW, 2), {"output_ratio": True}, TypeError, "not bool"),
]  # fmt: skip


def with_a_key(function):
    """Returns the op with a key for samples, if a call states neither."""

    def call(*arguments, **options):
        if len(arguments) < 6:
            options.setdefault("key", jax.random.key(0))
        return function(*arguments, **options)

    return call


WITH_A_KEY = {op: with_a_key(getattr(F, op)) for op in OPS}


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = BAD_HERE
    functions = WITH_A_KEY
