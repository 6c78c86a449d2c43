"""kthvalue, median, topk and sort: the ordered path against plain JAX and PyTorch."""

from __future__ import annotations

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

TITLE = "Selection along the last dimension, float32"
BASE = "plain jax.numpy"
OURS = "ordered"

#: The rows, and the elements of each.
SIZES = ((4096, 4096), (1296, 1296), (1, 10_000_000), (100_000, 64))

#: The lengths of a row of a curve.
CURVE = tuple(10**digits for digits in range(3, 9))


def _kth(size: int) -> int:
    return size // 4


#: A call of either library, and the same in plain JAX.
OPS: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[jax.Array], Any]]] = MappingProxyType(
    {
        "kthvalue": (
            lambda library, x: library.kthvalue(x, _kth(x.shape[-1]), -1),
            lambda x: jnp.sort(x)[:, _kth(x.shape[-1]) - 1],
        ),
        "median": (lambda library, x: library.median(x, -1), lambda x: jnp.median(x, -1)),
        "topk(16)": (lambda library, x: library.topk(x, 16), lambda x: jax.lax.top_k(x, 16)),
        "sort": (lambda library, x: library.sort(x), lambda x: (jnp.sort(x), jnp.argsort(x))),
    }
)


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every op on ``setting.times`` as many rows, and a curve of kthvalue by length."""
    for rows, length in setting.some(SIZES):
        shape = (rows * setting.times, length // 4 if setting.quick else length)
        for name in OPS:
            yield _case(setting, name, shape)
    for length in setting.some(CURVE, 2):
        # A sort has indices of 8 bytes on each side.
        if setting.fits(32 * length):
            yield _case(setting, "kthvalue", (1, length), n=length)


def _case(setting: Setting, name: str, shape: tuple[int, int], n: int | None = None) -> Case:
    op, plain = OPS[name]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    value = jnp.asarray(x)
    with impl.deterministic(profile="complete"):
        ordered = jax.jit(lambda x: op(impl, x)).lower(value).compile()
    with impl.deterministic(False):
        plain_program = jax.jit(plain).lower(value).compile()
    sides: dict[str, Side] = {BASE: run(plain_program, value), OURS: run(ordered, value)}
    if setting.torch:
        sides |= _torch_sides(setting.torch, op, x)
    return Case({"op": name, "size": str(list(shape))}, sides, OURS, n=n)


def _torch_sides(torch: TorchPeer, op: Callable[[Any, Any], Any], x: Any) -> Mapping[str, Side]:
    (value,) = torch.tensors((x,))
    return torch.sides(lambda: op(torch.torch, value))
