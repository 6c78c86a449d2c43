"""Cumulative sums, products, logarithms of sums, and maxima, against plain JAX and PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.timing import Measurement, Side, measure_case, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "Scans along rows, float32"
BASE = "plain JAX"
#: On a GPU PyTorch has no deterministic cumsum.
TORCH_DETERMINISTIC_ON_GPU = False
#: The reasons why another side is more than twice as fast.
REMARKS = (
    (
        "One core does the work: XLA does not share a loop, here over tiles, among cores. PyTorch "
        "shares the rows among both."
    ),
    "`cummax` carries a key, a value and an index at each step. Plain JAX has no indices.",
)

#: The number and the length of the rows, for each op.
SIZES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "cumsum": ((1, 10_000_000), (4096, 4096)),
        "cumprod": ((4096, 4096),),
        "logcumsumexp": ((4096, 4096),),
        "cummax": ((4096, 4096),),
    }
)
#: The functions of plain JAX. Its cumulative maximum gives no indices.
PLAIN: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "cumprod": lambda x: jnp.cumprod(x, 1),
        "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=1),
        "cummax": lambda x: jax.lax.cummax(x, axis=1),
    }
)


def measure(*, times: int, rounds: int, torch: TorchPeer | None) -> Iterator[Measurement]:
    """Measures every op, with rows ``times`` as long."""
    for name, sizes in SIZES.items():
        for rows, length in sizes:
            x = _values(name, (rows, length * times))
            value = jnp.asarray(x)
            with impl.deterministic(profile="complete"):
                ordered = jax.jit(functools.partial(_scan, name)).lower(value).compile()
            plain = jax.jit(PLAIN[name]).lower(value).compile()
            sides = {BASE: run(plain, value), "ordered": run(ordered, value)}
            if torch:
                sides["PyTorch"] = _torch_side(torch, name, x)
            case = {"op": name, "rows": f"{rows:,}", "length": f"{length * times:,}"}
            yield measure_case(case, sides, ordered, rounds=rounds)


def _scan(name: str, x: jax.Array) -> Any:
    return getattr(impl, name)(x, 1)


def _values(name: str, shape: tuple[int, int]) -> Any:
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    # These products stay in range: some machines are slow with subnormal numbers.
    return np.exp(numbers / 100) if name == "cumprod" else numbers


def _torch_side(torch: TorchPeer, name: str, x: Any) -> Side:
    (value,) = torch.tensors((x,))
    return torch.side(lambda: getattr(torch.torch, name)(value, 1))
