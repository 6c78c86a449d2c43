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
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "Scans along rows, float32"
BASE = "plain JAX"
OURS = "ordered"
#: The reasons why another side is more than twice as fast.
REMARKS = ("`cummax` computes indices by a second scan. Plain JAX has none.",)

#: The number and the length of the rows, for each op.
SIZES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "cumsum": ((1, 10_000_000), (4096, 4096)),
        "cumprod": ((4096, 4096),),
        "logcumsumexp": ((4096, 4096),),
        "cummax": ((4096, 4096),),
    }
)
#: The lengths of a row of a curve.
CURVE = tuple(10**digits for digits in range(3, 9))
#: The functions of plain JAX. Its cumulative maximum gives no indices.
PLAIN: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "cumprod": lambda x: jnp.cumprod(x, 1),
        "logcumsumexp": lambda x: jax.lax.cumlogsumexp(x, axis=1),
        "cummax": lambda x: jax.lax.cummax(x, axis=1),
    }
)


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every op, with rows ``times`` as long, and a curve of cumsum over the length."""
    for name, sizes in SIZES.items():
        for rows, length in setting.some(sizes[::-1]):
            yield _case(setting, name, (rows, length * setting.times))
    for length in setting.some(CURVE, 3):
        # Argument and result are as large.
        if setting.fits(8 * length):
            yield _case(setting, "cumsum", (1, length), n=length)


def _case(setting: Setting, name: str, shape: tuple[int, int], n: int | None = None) -> Case:
    x = _values(name, shape)
    value = jnp.asarray(x)
    with impl.deterministic(profile="complete"):
        ordered = jax.jit(functools.partial(_scan, name)).lower(value).compile()
    with impl.deterministic(False):
        plain = jax.jit(PLAIN[name]).lower(value).compile()
    sides: dict[str, Side] = {BASE: run(plain, value), OURS: run(ordered, value)}
    if setting.torch:
        sides |= _torch_sides(setting.torch, name, x)
    about = {"op": name, "rows": f"{shape[0]:,}", "length": f"{shape[1]:,}"}
    return Case(about, sides, OURS, n=n)


def _scan(name: str, x: jax.Array) -> Any:
    return getattr(impl, name)(x, 1)


def _values(name: str, shape: tuple[int, int]) -> Any:
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    # These products stay in range: some machines are slow with subnormal numbers.
    return np.exp(numbers / 100) if name == "cumprod" else numbers


def _torch_sides(torch: TorchPeer, name: str, x: Any) -> Mapping[str, Side]:
    (value,) = torch.tensors((x,))
    return torch.sides(lambda: getattr(torch.torch, name)(value, 1))
