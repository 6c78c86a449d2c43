"""Sums and counts by index: narrow, wide, and of gradients."""

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
    ints,
    label,
    scaled,
)

#: A narrow sum is scattered, in several launches, into destinations that are filled before.
NARROW = Budget(launches=MANY, floors=6)
#: A sort of the keys, and a few launches that find and combine the runs which are cut into parts.
#: The floor of wide rows is nearly the rows alone.
WIDE = Budget(launches=10, floors=3)

#: Bins are filled at once, and then added.
COUNT = Budget(launches=12, floors=3)

#: The destinations, the contributions, and the width of each.
_SIZES = ((100_000, 1_000_000, 1), (10_000, 100_000, 64), (1_000, 10_000_000, 1))

#: The number of rows of the table of which the gradient is counted for 16 bits too.
_WORDS = 50_000


def cases() -> Iterator[CostCase]:
    """Yields the cases."""
    for times in SCALES:
        for destinations, count, width in _SIZES:
            many = scaled(destinations, times) if destinations > 1_000 else destinations
            yield _index_add(many, scaled(count, times), width)
        yield _index_add(1, scaled(10_000_000, times), 1)
        yield from _rows(scaled(_WORDS, times), scaled(65_536, times), 1024)
        yield from _others(scaled(100_000, times), scaled(1_000_000, times))
        yield from _counts(scaled(10_000_000, times))


def _index_add(destinations: int, count: int, width: int) -> CostCase:
    widths = (width,) if width > 1 else ()
    return CostCase(
        f"index_add-{label(destinations, count, width)}",
        "index_add",
        "forward",
        lambda x, i, s: impl.index_add(x, 0, i, s),
        (floats(destinations, *widths), ints(count), floats(count, *widths)),
        _plain_sum,
        NARROW,
    )


def _plain_sum(x: jax.Array, i: jax.Array, s: jax.Array) -> jax.Array:
    return x.at[i].add(s)


def _rows(words: int, tokens: int, width: int) -> Iterator[CostCase]:
    """Yields gradients of an embedding and of a selection of rows."""
    yield _embedding(words, tokens, width, jnp.float32)
    if words == _WORDS:
        yield _embedding(words, tokens, width, jnp.bfloat16)
    yield CostCase(
        f"index_select-backward-{label(words, tokens, width)}",
        "index_select",
        "backward",
        gradient(lambda table, i: impl.index_select(table, 0, i)),
        (floats(tokens, width), floats(words, width), ints(tokens)),
        gradient(_plain_lookup),
        WIDE,
    )


def _embedding(words: int, tokens: int, width: int, dtype: Any) -> CostCase:
    size, name = label(words, tokens, width), jnp.dtype(dtype).name
    return CostCase(
        f"embedding-backward-{size}" + ("" if dtype == jnp.float32 else f"-{name}"),
        "nn.functional.embedding",
        "backward",
        gradient(lambda table, i: impl.nn.functional.embedding(i, table)),
        (floats(tokens, width, dtype=dtype), floats(words, width, dtype=dtype), ints(tokens)),
        gradient(_plain_lookup),
        WIDE,
    )


def _plain_lookup(table: jax.Array, i: jax.Array) -> jax.Array:
    return table[i]


def _others(destinations: int, count: int) -> Iterator[CostCase]:
    """Yields other narrow sums and assignments by index."""
    size = label(destinations, count)
    inputs = (floats(destinations), ints(count), floats(count))
    calls: list[tuple[str, Callable[..., Any], Callable[..., Any] | None]] = [
        ("scatter_add", lambda x, i, s: impl.scatter_add(x, 0, i, s), _plain_sum),
        (
            "index_put-accumulate",
            lambda x, i, s: impl.index_put(x, (i,), s, accumulate=True),
            _plain_sum,
        ),
        ("scatter_reduce-mean", lambda x, i, s: impl.scatter_reduce(x, 0, i, s, "mean"), None),
        ("index_copy", lambda x, i, s: impl.index_copy(x, 0, i, s), lambda x, i, s: x.at[i].set(s)),
    ]
    for name, call, plain in calls:
        op = name.partition("-")[0]
        yield CostCase(f"{name}-{size}", op, "forward", call, inputs, plain, NARROW)
    yield CostCase(
        f"gather-backward-{size}",
        "gather",
        "backward",
        gradient(lambda x, i: impl.gather(x, 0, i)),
        (floats(count), floats(destinations), ints(count)),
        gradient(lambda x, i: x[i]),
        NARROW,
    )


def _counts(count: int) -> Iterator[CostCase]:
    size = label(count, 100)
    yield CostCase(
        f"histc-{size}",
        "histc",
        "forward",
        lambda x: impl.histc(x, 100, 0, 1),
        (floats(count),),
        lambda x: jnp.histogram(x, 100, (0, 1))[0],
        COUNT,
    )
    yield CostCase(
        f"bincount-{size}",
        "bincount",
        "forward",
        lambda x: impl.bincount(x, length=100),
        (ints(count),),
        lambda x: jnp.bincount(x, length=100),
        COUNT,
    )
