"""index_add: the ordered path against the fast ones, and against what PyTorch does."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import impl
from conformance.benchmarks.timing import Side, median_ms

#: Destinations, contributions, and the width of each.
SIZES = (
    (100_000, 1_000_000, 1),
    (10_000, 100_000, 64),
    (1_000, 1_000_000, 1),
    (10, 1_000_000, 1),
    (1, 1_000_000, 1),
)

PLAIN = "plain `.at[].add`"
ORDERED = "ordered"

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Measured:
    """One size, measured.

    Attributes:
        size: Destinations, contributions, width.
        ms: Median milliseconds by side.
        kept: Bytes that the ordered program keeps beside its arguments and its result.
        destination: Bytes of the result.
    """

    size: tuple[int, int, int]
    ms: dict[str, float]
    kept: int
    destination: int


def measure(*, times: int = 1, rounds: int = 30) -> Iterator[Measured]:
    """Measures every size, or those ``times`` as large, on the default device."""
    for destinations, count, width in SIZES:
        size = (destinations * times if destinations > 1000 else destinations, count * times, width)
        arrays = _arrays(*size)
        on_device = tuple(map(jnp.asarray, arrays))
        with impl.deterministic(profile="complete"):
            ordered = jax.jit(_index_add).lower(*on_device).compile()
        sides = {**_jax_sides(on_device), ORDERED: _run(ordered, on_device)}
        if importlib.util.find_spec("torch") is not None:
            sides |= _torch_sides(arrays)
        memory: Any = ordered.memory_analysis()
        yield Measured(
            size,
            median_ms(sides, rounds=rounds),
            memory.temp_size_in_bytes,
            memory.output_size_in_bytes,
        )


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


def _run(compiled: Any, arrays: tuple[jax.Array, ...]) -> Side:
    return lambda: jax.block_until_ready(compiled(*arrays))


def _jax_sides(arrays: tuple[jax.Array, ...]) -> dict[str, Side]:
    plain = jax.jit(_plain).lower(*arrays)
    sides = {PLAIN: _run(plain.compile(), arrays)}
    if jax.default_backend() != "cpu":
        flags: dict[str, str | bool] = {"xla_gpu_deterministic_ops": True}
        name = "plain, deterministic XLA"
        sides[name] = _run(plain.compile(compiler_options=flags), arrays)
        with impl.deterministic(False):
            sides["atomic"] = _run(jax.jit(_index_add).lower(*arrays).compile(), arrays)
    return sides


def _torch_sides(arrays: Arrays) -> dict[str, Side]:
    import torch  # noqa: PLC0415  # optional: a peer to compare with

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.use_deterministic_algorithms(True)
    device = "cpu" if jax.default_backend() == "cpu" else "cuda"
    x, index, source = (torch.from_numpy(array).to(device) for array in arrays)

    def side() -> object:
        out = torch.index_add(x, 0, index, source)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    return {"PyTorch, deterministic": side}
