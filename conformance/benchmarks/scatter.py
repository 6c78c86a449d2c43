"""index_add: the ordered path against the atomic path, plain JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import impl
from conformance.benchmarks.timing import Measurement, Side, measure_case, on_cpu, run
from conformance.benchmarks.torch_peer import TorchPeer

#: The destinations, the contributions, and the width of each contribution.
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


def measure(*, times: int, rounds: int, torch: TorchPeer | None) -> Iterator[Measurement]:
    """Measures every size, with ``times`` as many contributions."""
    for destinations, count, width in SIZES:
        size = (destinations * times if destinations > 1000 else destinations, count * times, width)
        arrays = _arrays(*size)
        on_device = tuple(map(jnp.asarray, arrays))
        with impl.deterministic(profile="complete"):
            ordered = jax.jit(_index_add).lower(*on_device).compile()
        sides = {**_jax_sides(on_device), "ordered": run(ordered, *on_device)}
        if torch:
            sides["PyTorch, deterministic"] = _torch_side(torch, arrays)
        names = ("destinations", "contributions", "width")
        case = {name: f"{number:,}" for name, number in zip(names, size, strict=True)}
        yield measure_case(case, sides, ordered, rounds=rounds)


def _arrays(destinations: int, count: int, width: int) -> Arrays:
    rng = np.random.default_rng(0)
    widths = (width,) if width > 1 else ()
    return (
        np.zeros((destinations, *widths), np.float32),
        rng.integers(0, destinations, count).astype(np.int32),
        rng.normal(size=(count, *widths)).astype(np.float32),
    )


def _index_add(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return impl.index_add(x, 0, index, source)


def _plain(x: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
    return x.at[index].add(source)


def _jax_sides(arrays: tuple[jax.Array, ...]) -> dict[str, Side]:
    """Returns plain JAX and, on a GPU, XLA's deterministic scatter and the atomic path.

    On a CPU all of these are the same serial loop.
    """
    plain = jax.jit(_plain).lower(*arrays)
    sides = {BASE: run(plain.compile(), *arrays)}
    if not on_cpu():
        flags: dict[str, str | bool] = {"xla_gpu_deterministic_ops": True}
        name = "plain, deterministic XLA"
        sides[name] = run(plain.compile(compiler_options=flags), *arrays)
        with impl.deterministic(False):
            sides["atomic"] = run(jax.jit(_index_add).lower(*arrays).compile(), *arrays)
    return sides


def _torch_side(torch: TorchPeer, arrays: Arrays) -> Side:
    x, index, source = torch.tensors(arrays)
    return torch.side(lambda: torch.torch.index_add(x, 0, index, source))
