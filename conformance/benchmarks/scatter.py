"""index_add: the ordered path against the fast ones, and against what PyTorch does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import impl
from conformance.benchmarks.timing import (
    Measured,
    Side,
    has_torch,
    measured,
    run,
    torch_on_this_device,
)

#: Destinations, contributions, and the width of each.
SIZES = (
    (100_000, 1_000_000, 1),
    (10_000, 100_000, 64),
    (1_000, 1_000_000, 1),
    (10, 1_000_000, 1),
    (1, 1_000_000, 1),
)

TITLE = "index_add, float32"
BASE = "plain `.at[].add`"

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every size, or those ``times`` as large, on the default device."""
    for destinations, count, width in SIZES:
        size = (destinations * times if destinations > 1000 else destinations, count * times, width)
        arrays = _arrays(*size)
        on_device = tuple(map(jnp.asarray, arrays))
        with impl.deterministic(profile="complete"):
            ordered = jax.jit(_index_add).lower(*on_device).compile()
        sides = {**_jax_sides(on_device), "ordered": run(ordered, *on_device)}
        if has_torch():
            sides |= _torch_sides(arrays)
        names = ("destinations", "contributions", "width")
        case = {name: f"{number:,}" for name, number in zip(names, size, strict=True)}
        yield measured(case, sides, ordered, rounds=rounds)


def _arrays(destinations: int, count: int, width: int) -> Arrays:
    rng = np.random.default_rng(0)
    lanes = (width,) if width > 1 else ()
    return (
        np.zeros((destinations, *lanes), np.float32),
        rng.integers(0, destinations, count).astype(np.int32),
        rng.normal(size=(count, *lanes)).astype(np.float32),
    )


def _index_add(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return impl.index_add(x, 0, index, source)


def _plain(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return x.at[index].add(source)


def _jax_sides(arrays: tuple[jax.Array, ...]) -> dict[str, Side]:
    plain = jax.jit(_plain).lower(*arrays)
    sides = {BASE: run(plain.compile(), *arrays)}
    if jax.default_backend() != "cpu":
        flags: dict[str, str | bool] = {"xla_gpu_deterministic_ops": True}
        name = "plain, deterministic XLA"
        sides[name] = run(plain.compile(compiler_options=flags), *arrays)
        with impl.deterministic(False):
            sides["atomic"] = run(jax.jit(_index_add).lower(*arrays).compile(), *arrays)
    return sides


def _torch_sides(arrays: Arrays) -> dict[str, Side]:
    torch, device = torch_on_this_device()
    x, index, source = (torch.from_numpy(array).to(device) for array in arrays)

    def side() -> object:
        out = torch.index_add(x, 0, index, source)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    return {"PyTorch, deterministic": side}
