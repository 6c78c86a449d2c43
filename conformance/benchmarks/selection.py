"""kthvalue, median, topk and sort: the ordered path against plain JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.timing import Measurement, Side, measure_case, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "Selection along the last dimension, float32"
BASE = "ordered"
#: On a GPU PyTorch has no deterministic kthvalue, and no deterministic median with indices.
TORCH_DETERMINISTIC_ON_GPU = False
#: The rows, and the elements of each.
SIZES = ((4096, 4096), (1296, 1296), (1, 10_000_000), (100_000, 64))


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


def measure(*, times: int, rounds: int, torch: TorchPeer | None) -> Iterator[Measurement]:
    """Measures every op on every size, with ``times`` as many rows."""
    for rows, length in SIZES:
        x = np.random.default_rng(0).normal(size=(rows * times, length)).astype(np.float32)
        value = jnp.asarray(x)
        for name, (op, plain) in OPS.items():
            with impl.deterministic(profile="complete"):
                ordered = jax.jit(lambda x, op=op: op(impl, x)).lower(value).compile()
            sides = {
                BASE: run(ordered, value),
                "plain jax.numpy": run(jax.jit(plain).lower(value).compile(), value),
            }
            if torch:
                sides["PyTorch"] = _torch_side(torch, op, x)
            case = {"op": name, "size": str(list(x.shape))}
            yield measure_case(case, sides, ordered, rounds=rounds)


def _torch_side(torch: TorchPeer, op: Callable[[Any, Any], Any], x: Any) -> Side:
    (value,) = torch.tensors((x,))
    return torch.side(lambda: op(torch.torch, value))
