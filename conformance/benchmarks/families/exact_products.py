"""Exact products of matrices and convolutions: their time and error, compared with plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general

TITLE = "Exact products, float32"
BASE = "plain"
OURS = "exact"
REMARKS = (
    "Errors against float64: the median and the greatest, in 2^-24 of the product of magnitudes.",
)

#: The sides of square matrices.
SIZES = (256, 512, 1024, 2048)
#: The images, height, width and channels of a convolution by 3 x 3 kernels.
IMAGES = ((8, 28, 28, 64),)
#: The binades, up and down from 1, over which the elements of an operand lie.
BINADES = {"Gaussian": 0, "24 binades": 12}

Product = Callable[..., Any]


def cases(setting: Setting) -> Iterator[Case]:
    """Yields square products and convolutions; ``setting.times`` multiplies rows or images."""
    for data, binades in BINADES.items():
        for n in setting.some(SIZES, 2):
            operands = _draw(((n * setting.times, n), (n, n)), binades)
            case = {"product": f"[{n * setting.times}, {n}] by [{n}, {n}]", "data": data}
            yield _case(case, _dot, operands)
        for count, height, width, channels in IMAGES:
            shapes = (count * setting.times, height, width, channels), (3, 3, channels, channels)
            operands = _draw(shapes, binades)
            case = {"product": f"{list(shapes[0])}, 3 x 3", "data": data}
            yield _case(case, _convolve, operands)


def _case(case: dict[str, str], product: Product, operands: list[jax.Array]) -> Case:
    with arithmetic.wide():
        programs = {
            name: jax.jit(lambda *operands, kind=name: product(kind, *operands))
            .lower(*operands)
            .compile()
            for name in ("plain", "exact")
        }
        doubles = [jnp.asarray(operand, np.float64) for operand in operands]
        exact = np.asarray(product("plain", *doubles))
        scale = np.asarray(product("plain", *(abs(operand) for operand in doubles))) * 2.0**-24
    for name, program in programs.items():
        error = np.abs(np.asarray(program(*operands), np.float64) - exact) / scale
        case[f"error, {name}"] = f"{np.median(error):.2g}, {error.max():.2g}"
    sides: dict[str, Side] = {name: run(each, *operands) for name, each in programs.items()}
    return Case(case, sides, OURS)


def _dot(kind: str, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    numbers = (((1,), (0,)), ((), ()))
    if kind == "plain":
        plain: jax.Array = lax.dot_general(lhs, rhs, numbers)
        return plain
    return dot_general.dot_general(lhs, rhs, dimension_numbers=numbers)


def _convolve(kind: str, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, ("NHWC", "HWIO", "NHWC"))
    padding = ((1, 1), (1, 1))
    if kind == "plain":
        return lax.conv_general_dilated(lhs, rhs, (1, 1), padding, dimension_numbers=numbers)
    return convolution.conv_general_dilated(
        lhs,
        rhs,
        window_strides=(1, 1),
        padding=padding,
        dimension_numbers=numbers,
    )


def _draw(shapes: tuple[tuple[int, ...], ...], binades: int) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    return [
        jnp.asarray(
            rng.standard_normal(shape) * 2.0 ** rng.integers(-binades, binades + 1, shape),
            np.float32,
        )
        for shape in shapes
    ]
