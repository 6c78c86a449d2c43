"""Cumulative ops and selection along rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import impl
from conformance.lab.compiled.costs.case import (
    MANY,
    SCALES,
    Budget,
    CostCase,
    floats,
    gradient,
    label,
    scaled,
)

#: Blocks of blocks, their totals, and carries.
CUMULATIVE = Budget(launches=MANY // 2, floors=3)
#: One kernel for the terms of the derivative, and one that folds them.
GRADIENT = Budget(launches=2, floors=2.01)
#: A row is read once, and little else is moved.
SELECTION = Budget(launches=6, floors=1.2)
#: The elements between two pivots are copied, and read once more.
SHARED_ROW = Budget(launches=11, floors=1.9)

#: Plain JAX's function for each op. It has none that gives the positions of running extremes.
_CUMULATIVE: dict[str, Callable[[jax.Array], Any] | None] = {
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "cumprod": lambda x: jnp.cumprod(x, -1),
    "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=x.ndim - 1),
    "cummax": None,
    "cummin": None,
}


def cases() -> Iterator[CostCase]:
    """Yields the cases."""
    for times in SCALES:
        for name, plain in _CUMULATIVE.items():
            for shape in ((1, scaled(10_000_000, times)), (scaled(4096, times), 4096)):
                yield CostCase(
                    f"{name}-{label(*shape)}",
                    name,
                    "forward",
                    lambda x, name=name: getattr(impl, name)(x, -1),
                    (floats(*shape),),
                    plain,
                    CUMULATIVE,
                )
        yield from _other_scans(scaled(4096, times), 4096)
        yield from _selections(scaled(4096, times), 4096)
        yield from _one_row(scaled(10_000_000, times))


def _other_scans(rows: int, length: int) -> Iterator[CostCase]:
    """Yields gradients of cumulative ops, and cumulative ops of bfloat16 and complex numbers."""
    size = label(rows, length)
    for name in ("cumprod", "logcumsumexp"):
        yield CostCase(
            f"{name}-backward-{size}",
            name,
            "backward",
            gradient(lambda x, name=name: getattr(impl, name)(x, -1)),
            (floats(rows, length), floats(rows, length)),
            gradient(_CUMULATIVE[name]),  # type: ignore[arg-type]
            GRADIENT,
        )
    for name, dtype in (("cumsum", jnp.complex64), ("cummax", jnp.bfloat16)):
        yield CostCase(
            f"{name}-{size}-{jnp.dtype(dtype).name}",
            name,
            "forward",
            lambda x, name=name: getattr(impl, name)(x, -1),
            (floats(rows, length, dtype=dtype),),
            _CUMULATIVE[name],
            CUMULATIVE,
        )


def _one_row(length: int) -> Iterator[CostCase]:
    """Yields selections in one long row, which several kernel instances share."""
    calls = {
        "kthvalue": (lambda x: impl.kthvalue(x, length // 4, -1), length // 4 - 1),
        "median": (lambda x: impl.median(x, -1), (length - 1) // 2),
    }
    for name, (call, rank) in calls.items():
        yield CostCase(
            f"{name}-{label(1, length)}",
            name,
            "forward",
            call,
            (floats(1, length),),
            lambda x, rank=rank: _at(x, rank),
            SHARED_ROW,
            unlikely="select_ordered_digit",
        )


def _selections(rows: int, length: int) -> Iterator[CostCase]:
    inputs, size = (floats(rows, length),), label(rows, length)
    calls: dict[str, tuple[Any, Any, Budget]] = {
        "kthvalue": (
            lambda x: impl.kthvalue(x, length // 4, -1),
            lambda x: _at(x, length // 4 - 1),
            SELECTION,
        ),
        "median": (lambda x: impl.median(x, -1), lambda x: _at(x, (length - 1) // 2), SELECTION),
        "mode": (lambda x: impl.mode(x, -1), None, SELECTION),
        "topk": (lambda x: impl.topk(x, 16), lambda x: jax.lax.top_k(x, 16), SELECTION),
        "sort": (
            lambda x: impl.sort(x, -1),
            _sorted,
            Budget(),
        ),
    }
    for name, (call, plain, budget) in calls.items():
        yield CostCase(f"{name}-{size}", name, "forward", call, inputs, plain, budget)


def _sorted(x: jax.Array) -> Any:
    """Returns sorted rows and the positions that they were at."""
    positions = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    return jax.lax.sort((x, positions), dimension=x.ndim - 1, num_keys=1)


def _at(x: jax.Array, rank: int) -> Any:
    return tuple(part[:, rank] for part in _sorted(x))
