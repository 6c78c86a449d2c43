"""Gradients of pooling, sampling and interpolation; products and convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

import impl
from conformance.lab.compiled.costs.case import (
    MANY,
    SCALES,
    Budget,
    CostCase,
    floats,
    gradient,
    ints,
    label,
    scaled,
)

#: A gradient reads the cotangent and the input of the forward pass, and writes its result.
GRADIENT = Budget(launches=MANY, floors=4)
#: One library call or one kernel, and a few to arrange operands.
PRODUCT = Budget(launches=4, floors=3)


def cases() -> Iterator[CostCase]:
    """Yields the cases."""
    for times in SCALES:
        yield from _gradients(scaled(64, times), scaled(8, times))
        yield from _products(scaled(4096, times), scaled(64, times))


def _gradients(batch: int, small: int) -> Iterator[CostCase]:
    functions: Any = impl.nn.functional
    yield CostCase(
        f"max_pool2d-backward-{label(batch, 64, 112, 112)}",
        "nn.functional.max_pool2d",
        "backward",
        gradient(lambda x: functions.max_pool2d(x, 3, 2, 1)),
        (floats(batch, 64, 56, 56), floats(batch, 64, 112, 112)),
        gradient(_max_pool),
        GRADIENT,
    )
    yield CostCase(
        f"avg_pool2d-backward-{label(batch, 64, 112, 112)}",
        "nn.functional.avg_pool2d",
        "backward",
        gradient(lambda x: functions.avg_pool2d(x, 3, 2, 1)),
        (floats(batch, 64, 56, 56), floats(batch, 64, 112, 112)),
        None,
        GRADIENT,
    )
    yield CostCase(
        f"grid_sample-backward-{label(small, 64, 64, 64)}",
        "nn.functional.grid_sample",
        "backward",
        gradient(lambda x, grid: functions.grid_sample(x, grid, align_corners=False)),
        (floats(small, 64, 64, 64), floats(small, 64, 64, 64), floats(small, 64, 64, 2)),
        None,
        GRADIENT,
    )
    for mode in ("nearest", "bilinear"):
        yield CostCase(
            f"interpolate-{mode}-backward-{label(small, 64, 56, 56)}",
            "nn.functional.interpolate",
            "backward",
            gradient(lambda x, mode=mode: functions.interpolate(x, scale_factor=2, mode=mode)),
            (floats(small, 64, 112, 112), floats(small, 64, 56, 56)),
            gradient(lambda x, mode=mode: _resized(x, mode)),
            GRADIENT,
        )
    yield CostCase(
        f"pad-reflect-backward-{label(small, 64, 56, 56)}",
        "nn.functional.pad",
        "backward",
        gradient(lambda x: functions.pad(x, (1, 1, 1, 1), "reflect")),
        (floats(small, 64, 58, 58), floats(small, 64, 56, 56)),
        gradient(lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect")),
        GRADIENT,
    )
    yield CostCase(
        f"embedding_bag-backward-{label(50_000, small * 8192, 64)}",
        "nn.functional.embedding_bag",
        "backward",
        gradient(lambda table, i: functions.embedding_bag(i, table, mode="sum")),
        (floats(small * 512, 64), floats(50_000, 64), ints(small * 512, 16)),
        gradient(lambda table, i: table[i].sum(1)),
        Budget(launches=MANY, floors=6),
    )


def _products(size: int, batch: int) -> Iterator[CostCase]:
    for dtype in (jnp.float32, jnp.bfloat16):
        name = jnp.dtype(dtype).name
        square = floats(size, size, dtype=dtype)
        yield CostCase(
            f"mm-{label(size)}-{name}",
            "mm",
            "forward",
            impl.mm,
            (square, square),
            jnp.matmul,
            PRODUCT,
        )
        small = floats(batch * 16, 64, 64, dtype=dtype)
        yield CostCase(
            f"bmm-{label(*small.shape)}-{name}",
            "bmm",
            "forward",
            impl.bmm,
            (small, small),
            jnp.matmul,
            PRODUCT,
        )
        yield from _convolutions(batch, dtype)


def _convolutions(batch: int, dtype: DTypeLike) -> Iterator[CostCase]:
    """Yields a convolution and its gradients."""
    functions: Any = impl.nn.functional
    image = floats(batch, 64, 56, 56, dtype=dtype)
    weights = floats(64, 64, 3, 3, dtype=dtype)
    size = f"{label(batch, 64, 56, 56)}-{jnp.dtype(dtype).name}"

    def call(x: jax.Array, w: jax.Array) -> Any:
        return functions.conv2d(x, w, padding=1)

    def plain(x: jax.Array, w: jax.Array) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))

    def case(part: str, direction: str, functions: Any, *inputs: Any) -> CostCase:
        called, compared = functions
        return CostCase(
            f"conv2d{part}-{size}",
            "nn.functional.conv2d",
            direction,
            called,
            inputs,
            compared,
            PRODUCT,
        )

    yield case("", "forward", (call, plain), image, weights)
    for part, wrt in (("image", 0), ("weights", 1)):
        both = gradient(call, wrt), gradient(plain, wrt)
        yield case(f"-backward-{part}", "backward", both, image, image, weights)


def _max_pool(x: jax.Array) -> Any:
    padding = ((0, 0), (0, 0), (1, 1), (1, 1))
    window, strides = (1, 1, 3, 3), (1, 1, 2, 2)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, padding)


def _resized(x: jax.Array, mode: str) -> Any:
    *batch, height, width = x.shape
    return jax.image.resize(x, (*batch, 2 * height, 2 * width), mode)
