"""A right value passes, and one bit more is found, for each check.

Tests: conformance.hunt.oracles.
"""

import ml_dtypes
import numpy as np
import pytest

from conformance.hunt import oracles
from conformance.hunt.program import Aval, Equation, Input, Program
from conformance.hunt.tokens import TOKENS
from spec import oracles as exact

X = np.array([[1.0, 2.0**24, -1.0], [3.0, 2.0**-30, 0.5]], np.float32)
Y = np.array([[1.0, 3.0], [0.1, -2.0], [7.0, 2.0**-20]], np.float32)
Z = np.full_like(X, 2.0**-25)
S = np.array([0.0, 1, 2], np.float32)
INDEX = np.array([1, 1], np.int32)
MINUS = np.array([-0.0, 0, 1], np.float32)


def one(token, params, result, *operands):
    result = np.asarray(result)
    equation = Equation(
        token, tuple(range(len(operands))), params, Aval(result.shape, result.dtype.name)
    )
    inputs = tuple(map(Input.of, operands))
    return Program(inputs, (equation,), (len(inputs),), "none", len(inputs))


CASES = {
    "sum": ({"axes": [1]}, exact.nearest(X.T), (X,)),
    "cumsum": ({"axis": 1, "reverse": True}, exact.nearest_running(X.T[::-1])[::-1].T, (X,)),
    "matmul": ({}, exact.nearest_product(X, Y, np.float32), (X, Y)),
    "scatter_add": ({}, exact.nearest_scatter(X, INDEX, X), (X, INDEX, X)),
    "sum_of_rows": ({}, exact.nearest(X), (X,)),
    "sum_in_a_loop": ({"count": 2}, exact.nearest(X), (X,)),
    "product_in_a_loop": ({"count": 2}, exact.nearest_product(X.T, X, np.float32), (X, X)),
    "sum_of_squares": ({}, exact.nearest(X * X), (X,)),
    "used_three_times": ({}, exact.nearest(np.stack([X, -X, Z])), (X, X, -X, Z)),
    # A sum of parts is -0 if all of them are.
    "used_five_times": ({}, 5 * MINUS, (S, *[MINUS] * 5)),
    "max": ({}, np.array([0.0, 1, 2], np.float32), (S, -S)),
    "min": ({}, np.array([-0.0, -1, -2], np.float32), (-S, S)),
    "reduce_min": ({"axes": [0]}, np.array([-0.0, -1, -2], np.float32), (np.stack([S, -S]),)),
    "cummax": ({"axis": 0, "reverse": True}, np.array([2.0, 2, 2], np.float32), (S,)),
    "window_sum": (
        {"sizes": [1, 2], "strides": [1, 2], "padding": [[0, 0], [1, 0]]},
        np.stack([X[:, 0], exact.nearest(X[:, 1:].T)], 1),
        (X,),
    ),
    "gram": ({}, exact.nearest_product(X, X.T, np.float32), (X,)),
    "batched_product": (
        {},
        np.stack([exact.nearest_product(each, Y.T, np.float32) for each in (Y, -Y)]),
        (np.stack([Y, -Y]), np.stack([Y, Y])),
    ),
    "product_of_rows": ({}, exact.nearest_product(X.T, X, np.float32), (X, X)),
    "einsum": (
        {"subscripts": "cde,de->c"},
        exact.nearest_product(np.stack([X, -X]).reshape(2, 6), X.reshape(6, 1), np.float32)[:, 0],
        (np.stack([X, -X]), X),
    ),
    "conv": (
        {"stride": 2, "padding": [1, 0], "spread": 2, "dilation": 1, "groups": 1},
        # The image is 0 3 0 2**-30 0 0.5 with its padding, and every second position has a result.
        np.array([[[6, 2.0**-29]]], np.float32),
        (X[None, 1:], np.array([[[1, 2, 0]]], np.float32)),
    ),
    "scatter_subtract": ({}, exact.nearest_scatter(X, INDEX, -X), (X, INDEX, X)),
    "scatter_of_rows": ({}, exact.nearest_scatter(0 * X, INDEX, X), (X, INDEX)),
    # The constant is a float32 before it divides: 0.1 in float64 gives another float32.
    "divide_constant": (
        {"number": "0.1"},
        np.array([1.6663437634594985e-17], np.float32),
        (np.array([1.666343866857075e-18], np.float32),),
    ),
    "rem": ({}, np.fmod(X, np.float32(0.7)), (X, np.full_like(X, 0.7))),
    # A transform of two elements is their sum and their difference.
    "fft": (
        {},
        np.array([[0.75, 0.25], [-1, 2]], np.complex64),
        (np.array([[0.5, 0.25], [0.5, -1.5]], np.float32),),
    ),
    "eigh": ({}, np.array([1, 3], np.float32), (np.array([[2, 1], [1, 2]], np.float32),)),
    "svd": ({}, np.array([5.0, 0.0], np.float32), (np.array([[3, 4], [0, 0]], np.float32),)),
    "logistic": (
        {},
        np.array([0.5 + 2.0**-24], np.float32),
        (np.array([3 * 2.0**-23], np.float32),),
    ),
    # It is infinite with an infinite part; subnormal parts count as zeros.
    "abs_part": (
        {},
        np.array([np.hypot(1.0, 0.1 * 2.0**-3), np.inf, 0], np.float32),
        (np.array([1 + 0.0125j, complex(np.inf, np.nan), 1e-38 + 1e-38j], np.complex64),),
    ),
    "add": ({}, X + X * np.float32(0.1), (X, X * np.float32(0.1))),
    "exp": ({}, np.exp(X[1:].astype(np.float64)).astype(np.float32), (X[1:],)),
    "reverse": ({"axis": 0}, X[::-1], (X,)),
    "sort_pairs": (
        {"axis": 0},
        np.array([5.0, 7, 6], np.float32),
        (np.array([0.0, 1, -0.0], np.float32), np.array([5, 6, 7], np.float32)),
    ),
}
WIDE = {
    "add": lambda a, b: a.astype(np.float64) + b,
    "exp": lambda a: np.exp(a.astype(np.float64)),
    "logistic": lambda a: 1 / (1 + np.exp(-a.astype(np.float64))),
    "reverse": lambda a: a[::-1],
}


@pytest.mark.parametrize("name", CASES)
def test_one_wrong_bit_is_found(name):
    params, right, operands = CASES[name]
    program = one(name, params, right, *operands)
    number = len(operands)
    references = {(number, "value"): WIDE[name](*operands)} if name in WIDE else {}
    right = np.ascontiguousarray(right)
    assert oracles.wrong(program, [*operands, right], references) == []
    bits = right.copy().reshape(-1).view(np.int32)
    bits[0] += 1
    one_bit_more = bits.view(right.dtype).reshape(right.shape)
    (found,) = oracles.wrong(program, [*operands, one_bit_more], references)
    assert found.variable == number
    assert found.index == (0,) * right.ndim
    assert name in found.sentence


def test_near_its_zero_a_logarithm_of_gamma_is_judged_by_its_absolute_error():
    x = np.array([1 - 3 * 2.0**-24], np.float32)
    exact, of_xla = 1.0321423029364e-07, 1.0321422916348e-07  # mpmath's, and XLA's in float64.
    right = np.array([exact], np.float32)
    program = one("lgamma", {}, right, x)
    assert not oracles.wrong(program, [x, right], {(1, "value"): np.array([of_xla])})
    assert oracles.wrong(program, [x, right], {(1, "value"): np.array([of_xla + 2.0**-45])})


def test_a_sum_that_cancels_is_judged_by_its_terms():
    x = np.array([-0.703125], np.float16)
    exact, scale = np.array([-0.00997782]), np.array([1.39627218])
    for result, is_right in ((-0.009766, True), (-0.009766 + 2.0**-5, False)):
        near = np.array([result], np.float16)
        program = one("logaddexp", {}, near, x, x)
        references = {(2, "value"): exact, (2, "scale"): scale}
        assert (not oracles.wrong(program, [x, x, near], references)) is is_right


def test_a_nan_of_bfloat16_comes_last():
    keys = np.array([0.5, np.nan, -0.5, -2.0]).astype(ml_dtypes.bfloat16)
    order = np.array([3, 2, 0, 1], np.int32)
    program = one("argsort", {"axis": 0}, order, keys)
    assert oracles.wrong(program, [keys, order], {}) == []


def test_a_zero_of_the_other_sign_is_wrong_and_any_nan_is_right():
    values = np.array([0.0, np.nan], np.float32)
    program = one("reverse", {"axis": 0}, values, values)
    reference = {(1, "value"): np.array([-0.0, -np.nan], np.float32)}
    (found,) = oracles.wrong(program, [values, values], reference)
    assert found.index == (0,)


def test_a_function_beside_the_middle_goes_to_the_nearer_float():
    x = np.array([3 * 2.0**-23, 0.0, np.nan, np.inf], np.float32)
    values, holds = oracles.rounded_once("logistic", x)
    # 1/2 + x/4 is the middle, and would go to 0.5 + 2**-23, whose last bit is 0.
    assert values[:2].tolist() == [0.5 + 2.0**-24, 0.5]
    assert holds.tolist() == [True, True, False, False]


def test_what_the_guarantee_rounds_in_steps_or_flushes_or_cannot_hold_is_left_to_float64():
    values, holds = oracles.rounded_once("exp", np.array([[90.0], [3e38], [-87.5]], np.float32))
    assert values[0] == np.inf
    assert holds.tolist() == [[True], [False], [False]]
    assert not oracles.rounded_once("log", np.array([-1.0, 0.0], np.float32))[1].any()
    assert not oracles.rounded_once("exp", np.array([1.0]))[1].any()
    assert not oracles.rounded_once("square", np.array([1.0], np.float32))[1].any()


def test_every_check_of_a_token_is_one_of_the_table():
    table = oracles.__doc__ or ""
    for token in TOKENS.values():
        check = "sum" if token.check == "sum_of_rows" else token.check
        assert f"``{check}``" in table, token.name
