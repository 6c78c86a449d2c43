"""Cumulative ops and selection along rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import impl
from conformance.machine_code.costs.case import (
    SCALES,
    Budget,
    CostCase,
    floats,
    label,
    scaled,
)

#: Blocks, their totals, and the carry: no loop of XLA, and no fold by a single program.
CUMULATIVE = Budget(launches=8, floors=3, rounds=0, serial=16_384)
#: A row is read at most twice.
SELECTION = Budget(launches=8, floors=2, rounds=0)
#: A sort has to move its rows more often.
SORT = Budget(off=1.0)

_CUMULATIVE: dict[str, Callable[[jax.Array], Any]] = {
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "cumprod": lambda x: jnp.cumprod(x, -1),
    "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=x.ndim - 1),
    "cummax": lambda x: jax.lax.cummax(x, axis=x.ndim - 1),
    "cummin": lambda x: jax.lax.cummin(x, axis=x.ndim - 1),
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
        yield from _selections(scaled(4096, times), 4096)


def _selections(rows: int, length: int) -> Iterator[CostCase]:
    inputs, size = (floats(rows, length),), label(rows, length)
    calls: dict[str, tuple[Any, Any, Budget]] = {
        "kthvalue": (
            lambda x: impl.kthvalue(x, length // 4, -1),
            lambda x: jnp.sort(x)[:, length // 4 - 1],
            SELECTION,
        ),
        "median": (lambda x: impl.median(x, -1), lambda x: jnp.median(x, -1), SELECTION),
        "mode": (lambda x: impl.mode(x, -1), None, SELECTION),
        "topk": (lambda x: impl.topk(x, 16), lambda x: jax.lax.top_k(x, 16), SELECTION),
        "sort": (
            lambda x: impl.sort(x, -1),
            lambda x: (jnp.sort(x), jnp.argsort(x)),
            SORT,
        ),
    }
    for name, (call, plain, budget) in calls.items():
        yield CostCase(f"{name}-{size}", name, "forward", call, inputs, plain, budget)
