"""index_add: the ordered path against the mode off, plain JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import impl
from conformance.benchmarks import indices
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run

TITLE = "index_add, float32"
BASE = "plain `.at[].add`"
OURS = "ordered"
UNDER_FLAGS = BASE
REMARKS = ("The sizes from 1,000 to 100,000,000 contributions have a tenth as many destinations.",)

#: The destinations, the contributions, and the width of each contribution.
SIZES = (
    (100_000, 1_000_000, 1),
    (10_000, 100_000, 64),
    (50_000, 65_536, 1024),
    (1_000, 10_000_000, 1),
    (10, 1_000_000, 1),
    (1, 10_000_000, 1),
)
#: The sizes that are measured with every distribution of indices.
SKEWED = ((100_000, 1_000_000, 1), (10_000, 100_000, 64))
#: The contributions of a curve.
CURVE = tuple(10**digits for digits in range(3, 9))

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]
Size = tuple[int, int, int]


def cases(setting: Setting) -> Iterator[Case]:
    """Yields sizes, distributions of indices, and a curve over the number of contributions.

    ``setting.times`` multiplies the contributions of the sizes.
    """
    for destinations, count, width in setting.some(SIZES, 2):
        scaled = destinations * setting.times if destinations > 1000 else destinations
        yield from _case(setting, (scaled, count * setting.times, width), "uniform")
    for destinations, count, width in setting.some(SKEWED):
        for distribution in list(indices.DISTRIBUTIONS)[1:]:
            used = min(count, destinations) if distribution == "unique" else count
            yield from _case(setting, (destinations, used, width), distribution)
    for count in setting.some(CURVE, 4):
        yield from _case(setting, (count // 10, count, 1), "uniform", n=count)


def _case(setting: Setting, size: Size, distribution: str, n: int | None = None) -> Iterator[Case]:
    """Yields a case, if it fits into the memory."""
    destinations, count, width = size
    if not setting.fits(4 * (count * (width + 1) + 2 * destinations * width)):
        return
    arrays = _arrays(size, distribution)
    sides = _jax_sides(tuple(map(jnp.asarray, arrays)))
    if setting.torch:
        x, index, source = setting.torch.tensors(arrays)
        library = setting.torch.torch
        sides |= setting.torch.sides(lambda: library.index_add(x, 0, index, source))
    names = ("destinations", "contributions", "width")
    about = {name: f"{number:,}" for name, number in zip(names, size, strict=True)}
    yield Case({**about, "indices": distribution}, sides, OURS, n=n)


def _arrays(size: Size, distribution: str) -> Arrays:
    destinations, count, width = size
    widths = (width,) if width > 1 else ()
    return (
        np.zeros((destinations, *widths), np.float32),
        indices.draw(distribution, destinations, count),
        np.random.default_rng(1).normal(size=(count, *widths)).astype(np.float32),
    )


def _index_add(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return impl.index_add(x, 0, index, source)


def _plain(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return x.at[index].add(source)


def _jax_sides(arrays: tuple[jax.Array, ...]) -> dict[str, Side]:
    """Returns plain JAX, our op with the mode off, and its ordered path."""
    with impl.deterministic(False):
        plain = jax.jit(_plain).lower(*arrays).compile()
        mode_off = jax.jit(_index_add).lower(*arrays).compile()
    with impl.deterministic(profile="complete"):
        ordered = jax.jit(_index_add).lower(*arrays).compile()
    return {
        BASE: run(plain, *arrays),
        "mode off": run(mode_off, *arrays),
        OURS: run(ordered, *arrays),
    }
