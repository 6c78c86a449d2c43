"""Running sums, products, logarithms and maxima, against `jax.numpy` and PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.timing import (
    Measured,
    Side,
    has_torch,
    measured,
    run,
    torch_on_this_device,
)

TITLE = "Scans along rows, float32"
BASE = "plain JAX"
#: Why another side is more than twice as fast.
REMARKS = (
    (
        "One core does the work: XLA does not spread a loop, here over tiles, while PyTorch "
        "gives rows to both."
    ),
    "`cummax` carries a key, a value and an index at each step; plain JAX has no indices.",
)

#: Rows, of a length, for each op.
SIZES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "cumsum": ((1, 10_000_000), (4096, 4096)),
        "cumprod": ((4096, 4096),),
        "logcumsumexp": ((4096, 4096),),
        "cummax": ((4096, 4096),),
    }
)
#: What JAX has; its cumulative maximum is without indices.
PLAIN: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "cumprod": lambda x: jnp.cumprod(x, 1),
        "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=1),
        "cummax": lambda x: jax.lax.cummax(x, axis=1),
    }
)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every op, with rows ``times`` as long, on the default device."""
    for name, sizes in SIZES.items():
        for rows, length in sizes:
            x = _values(name, (rows, length * times))
            value = jnp.asarray(x)
            with impl.deterministic(profile="complete"):
                ordered = jax.jit(functools.partial(_ours, name)).lower(value).compile()
            plain = jax.jit(PLAIN[name]).lower(value).compile()
            sides = {BASE: run(plain, value), "ordered": run(ordered, value)}
            if has_torch():
                sides["PyTorch"] = _torch_side(name, x)
            case = {"op": name, "rows": f"{rows:,}", "length": f"{length * times:,}"}
            yield measured(case, sides, ordered, rounds=rounds)


def _ours(name: str, x: jax.Array) -> Any:
    return getattr(impl, name)(x, 1)


def _values(name: str, shape: tuple[int, int]) -> Any:
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    # Products stay in range: what is subnormal takes its time on some machines.
    return np.exp(numbers / 100) if name == "cumprod" else numbers


def _torch_side(name: str, x: Any) -> Side:
    torch, device = torch_on_this_device()
    # What has no deterministic implementation there is timed as it is.
    torch.use_deterministic_algorithms(device == "cpu")
    value = torch.from_numpy(x).to(device)

    def side() -> object:
        out = getattr(torch, name)(value, 1)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    return side
