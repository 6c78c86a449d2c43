"""Single operations under the guarantee ``portable``, against plain JAX: time and error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.benchmarks.engine import (
    MODE_OFF,
    PORTABLE,
    Benchmark,
    Case,
    Program,
    Setting,
    compiled,
)
from impl._exact import arithmetic

#: The numbers of elements of an argument: one that fits into the cache, and one that does not.
LENGTHS = (1 << 18, 1 << 23)
#: For each function, the least and the greatest argument, and the function of JAX.
ELEMENTARY: Mapping[str, tuple[float, float, Callable[..., Any]]] = MappingProxyType(
    {
        "exp": (-5, 5, jnp.exp),
        "log": (0.01, 10, jnp.log),
        "tanh": (-5, 5, jnp.tanh),
        "logistic": (-5, 5, jax.nn.sigmoid),
        "rsqrt": (0.01, 10, lax.rsqrt),
        "sqrt": (0.01, 10, lax.sqrt),
        "div": (-5, 5, lax.div),
        "pow": (0.01, 10, lax.pow),
        "erf": (-5, 5, lax.erf),
        "log1p": (-0.9, 10, jnp.log1p),
        "expm1": (-5, 5, jnp.expm1),
        "sin": (-5, 5, jnp.sin),
        "cos": (-5, 5, jnp.cos),
        "erf_inv": (-0.99, 0.99, lax.erf_inv),
    }
)


def elementary(setting: Setting) -> Iterator[Case]:
    """Yields every function at every size."""
    rng = np.random.default_rng(0)
    for name, (low, high, function) in setting.some(ELEMENTARY, 4).items():
        for length in setting.some(LENGTHS):
            arrays = [rng.uniform(low, high, length) for _ in range(1 + (name in ("div", "pow")))]
            about = {"function": name, "elements": f"{length:,}"}
            yield Case(about, _sides(function, arrays))


#: The destinations, the updates, and the width of each.
SCATTERS = (
    (100_000, 1_000_000, 1),
    (1_000, 1_000_000, 1),
    (10, 1_000_000, 1),
    (10_000, 100_000, 64),
    (1_000, 100_000, 8),
    (50_000, 20_000, 256),
)
#: The shape of an array, and the axes that are summed over.
SUMS = (
    ((1 << 20,), (0,)),
    ((4096, 256), (0,)),
    ((4096, 256), (1,)),
    ((32, 32, 32, 64), (0, 1, 2)),
)


def sums(setting: Setting) -> Iterator[Case]:
    """Yields scatters and sums."""
    rng = np.random.default_rng(0)
    for destinations, count, width in setting.some(SCATTERS, 3):
        widths = (width,) if width > 1 else ()
        index = rng.integers(0, destinations, count).astype(np.int32)
        arrays = np.zeros((destinations, *widths)), index, rng.normal(size=(count, *widths))
        about = {"case": f"scatter {count:,} of {width} into {destinations:,}"}
        yield Case(about, _sides(lambda x, i, u: x.at[i].add(u), arrays))
    for shape, axes in SUMS:
        about = {"case": f"sum {list(shape)} over {list(axes)}"}
        function = functools.partial(lax.reduce_sum, axes=axes)
        yield Case(about, _sides(function, (rng.normal(size=shape),)))


#: The sides of square matrices.
SQUARES = (256, 512, 1024, 2048)
#: The images, height, width and channels of a convolution by 3 x 3 kernels.
IMAGES = ((8, 28, 28, 64),)
#: The binades, up and down from 1, over which the elements of an operand lie.
BINADES = {"Gaussian": 0, "24 binades": 12}


def products(setting: Setting) -> Iterator[Case]:
    """Yields square products and convolutions."""
    convolution = functools.partial(
        lax.conv_general_dilated,
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    for data, binades in BINADES.items():
        for n in setting.some(SQUARES, 2):
            about = {"product": f"[{n}, {n}] by [{n}, {n}]", "data": data}
            yield _with_errors(about, lax.dot, _draw(((n, n), (n, n)), binades))
        for image in IMAGES:
            about = {"product": f"{list(image)}, 3 x 3", "data": data}
            operands = _draw((image, (3, 3, image[-1], image[-1])), binades)
            yield _with_errors(about, convolution, operands)


def _with_errors(
    about: Mapping[str, str], function: Callable[..., Any], operands: tuple[Any, ...]
) -> Case:
    sides = _sides(function, operands)
    with arithmetic.wide():
        doubles = [jnp.asarray(operand, np.float64) for operand in operands]
        right = np.asarray(function(*doubles))
        scale = np.asarray(function(*(abs(operand) for operand in doubles))) * 2.0**-24
    errors: dict[str, str] = {}
    for name, program in sides.items():
        error = np.abs(np.asarray(program(), np.float64) - right) / scale
        errors[f"error, {name}"] = f"{np.median(error):.2g}, {error.max():.2g}"
    return Case({**about, **errors}, sides)


def _draw(shapes: tuple[tuple[int, ...], ...], binades: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return tuple(
        np.float32(rng.standard_normal(shape) * 2.0 ** rng.integers(-binades, binades + 1, shape))
        for shape in shapes
    )


def _sides(function: Callable[..., Any], arrays: Any) -> dict[str, Program]:
    """Returns a function without the mode, and under the guarantee; floats are of float32."""
    kinds = (np.int32 if np.asarray(x).dtype.kind == "i" else np.float32 for x in arrays)
    values = tuple(map(jnp.asarray, arrays, kinds))
    return {
        "plain": compiled(function, values, MODE_OFF),
        "portable": compiled(function, values, PORTABLE),
    }


FAMILIES = {
    "elementary": Benchmark("Elementary functions, float32", "plain", "portable", elementary),
    "exact_sums": Benchmark("Exact scatters and sums, float32", "plain", "portable", sums),
    "exact_products": Benchmark(
        "Exact products, float32",
        "plain",
        "portable",
        products,
        ("Errors against float64: median and greatest, in 2^-24 of the product of magnitudes.",),
    ),
}
