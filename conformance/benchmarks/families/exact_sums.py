"""Exact scatters and sums against JAX's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.machine import on_cpu
from conformance.benchmarks.sides import run
from impl._exact import arithmetic
from impl._exact.sums import reduction, scatter

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

TITLE = "Exact scatters and sums, float32"
BASE = "plain"
OURS = "exact"


def cases(setting: Setting) -> Iterator[Case]:
    """Yields scatters, whose updates ``setting.times`` multiplies in number, and sums."""
    rng = np.random.default_rng(0)
    for destinations, count, width in setting.some(SCATTERS, 3):
        widths = (width,) if width > 1 else ()
        index = rng.integers(0, destinations, count * setting.times).astype(np.int32)
        updates = rng.normal(size=(count * setting.times, *widths)).astype(np.float32)
        arrays = np.zeros((destinations, *widths), np.float32), index, updates
        name = f"scatter {count * setting.times:,} of {width} into {destinations:,}"
        yield _case(name, _plain, _exact, arrays)
    for shape, axes in SUMS:
        values = rng.normal(size=shape).astype(np.float32)
        name = f"sum {list(shape)} over {list(axes)}"
        yield _case(
            name,
            functools.partial(lax.reduce_sum, axes=axes),
            functools.partial(reduction.reduce_sum, axes=axes),
            (values,),
        )


def _plain(operand: jax.Array, index: jax.Array, updates: jax.Array) -> jax.Array:
    return operand.at[index].add(updates)


def _exact(operand: jax.Array, index: jax.Array, updates: jax.Array) -> jax.Array:
    """Computes what JAX makes of ``_plain``, with an exact scatter."""
    index = jnp.where(index < 0, index + operand.shape[0], index)
    windows = tuple(range(1, updates.ndim))
    return scatter.scatter_add(
        operand,
        index[:, None],
        updates,
        dimension_numbers=lax.ScatterDimensionNumbers(windows, (0,), (0,)),
        mode="drop",
        target="cpu" if on_cpu() else "device",
    )


def _case(
    name: str,
    plain: Callable[..., jax.Array],
    exact: Callable[..., jax.Array],
    arrays: tuple[Any, ...],
) -> Case:
    on_device = tuple(map(jnp.asarray, arrays))
    with arithmetic.wide():
        compiled = jax.jit(exact).lower(*on_device).compile()
    sides = {
        BASE: run(jax.jit(plain).lower(*on_device).compile(), *on_device),
        OURS: run(compiled, *on_device),
    }
    return Case({"case": name}, sides, OURS)
