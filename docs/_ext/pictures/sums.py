"""A picture of one sum in many orders, and of the exact sum, which has one value."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import impl
from pictures.themes import Theme

_TERMS, _ORDERS = 4096, 1000


@functools.cache
def results() -> tuple[tuple[float, ...], frozenset[float]]:
    """Returns a sum of the same float32 terms in many orders, then the values of the exact sum.

    The plain sums are added from left to right. ``jnp.sum`` with the guarantee
    ``portable`` gives the exact sums.
    """
    rng = np.random.default_rng(0)
    terms = rng.standard_normal(_TERMS).astype(np.float32)
    shuffled = rng.permuted(np.tile(terms, (_ORDERS, 1)), axis=1)
    with impl.deterministic(True, guarantee="portable"):
        exact = np.asarray(jax.jit(lambda rows: jnp.sum(rows, axis=1))(shuffled))
    plain = np.add.accumulate(shuffled, axis=1, dtype=np.float32)[:, -1]
    return tuple(map(float, plain)), frozenset(map(float, exact))


def description() -> str:
    """Returns what the picture shows, in a line."""
    plain, exact = results()
    return (
        f"The sum of {_TERMS:,} float32 numbers in {_ORDERS:,} random orders: {len(set(plain)):,} "
        f"different results if they are added one after another, {len(exact)} if the sum is exact"
    )


def draw(theme: Theme) -> Figure:
    """Returns a histogram of the sums, with the exact sum as a line."""
    plain, exact = results()
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot()
    counts, _, _ = axes.hist(plain, bins=41, color=theme.warn, alpha=0.75)
    top = float(np.max(counts))
    for value in exact:
        axes.axvline(value, color=theme.ours, linewidth=3)
    axes.set_ylim(0, 1.35 * top)
    axes.annotate(
        f"exact sums: {len(exact)} value" + "s" * (len(exact) != 1),
        (max(exact), 1.2 * top),
        (8, 0),
        textcoords="offset points",
        color=theme.ours,
        va="center",
    )
    axes.text(
        0.02,
        0.95,
        f"added one after another:\n{len(set(plain)):,} values",
        transform=axes.transAxes,
        color=theme.warn,
        va="top",
    )
    axes.ticklabel_format(useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"sum of the same {_TERMS:,} float32 numbers")
    axes.set_ylabel(f"of {_ORDERS:,} orders")
    return figure
