"""kthvalue, median, topk and sort: the ordered path against what jax.numpy and PyTorch do."""

from __future__ import annotations

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

TITLE = "Selection along the last dimension, float32"
BASE = "ordered"
#: Why another side is more than twice as fast.
REMARKS = (
    (
        "`topk` sorts a few rows at a time, in a loop that XLA keeps on one core; PyTorch "
        "gives rows to both."
    ),
)

#: Rows, and elements in each.
SIZES = ((4096, 4096),)


def _kth(size: int) -> int:
    return size // 4


#: A call of either library, and what plain JAX has for it.
OPS: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[jax.Array], Any]]] = MappingProxyType(
    {
        "kthvalue": (
            lambda ns, x: ns.kthvalue(x, _kth(x.shape[-1]), -1),
            lambda x: jnp.sort(x)[:, _kth(x.shape[-1]) - 1],
        ),
        "median": (lambda ns, x: ns.median(x, -1), lambda x: jnp.median(x, -1)),
        "topk(16)": (lambda ns, x: ns.topk(x, 16), lambda x: jax.lax.top_k(x, 16)),
        "sort": (lambda ns, x: ns.sort(x), lambda x: (jnp.sort(x), jnp.argsort(x))),
    }
)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
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
            if has_torch():
                sides["PyTorch"] = _torch_side(op, x)
            yield measured({"op": name, "size": str(list(x.shape))}, sides, ordered, rounds=rounds)


def _torch_side(op: Callable[[Any, Any], Any], x: Any) -> Side:
    torch, device = torch_on_this_device()
    # What has no deterministic implementation there is timed as it is.
    torch.use_deterministic_algorithms(device == "cpu")
    value = torch.from_numpy(x).to(device)

    def side() -> Any:
        out = op(torch, value)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    return side
