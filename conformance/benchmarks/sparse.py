"""bmm with a sparse left operand: the ordered path against plain JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

import impl
from conformance.benchmarks.timing import (
    Measured,
    Side,
    has_torch,
    measured,
    run,
    torch_on_this_device,
)

TITLE = "bmm with a sparse left operand, float32"
BASE = "ordered"

#: Batch, rows and columns of the sparse operand, one in how many is stored, columns of the other.
SIZES = ((8, 4096, 4096, 1000, 64),)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every size, with ``times`` as many in a batch, both ways."""
    for batch, rows, columns, one_in, width in SIZES:
        shape = batch * times, rows, columns
        places, data, dense, ct = _arrays(shape, one_in, width)
        size = f"{list(shape)}, 1 in {one_in:,}, by {list(dense.shape)}"
        for direction, sides, ordered in _both_ways(shape, places, data, dense, ct):
            yield measured({"size": size, "direction": direction}, sides, ordered, rounds=rounds)


def _arrays(shape: tuple[int, int, int], one_in: int, width: int) -> Any:
    """Sorted places, the elements there, the dense operand and a cotangent."""
    rng = np.random.default_rng(0)
    each = shape[1] * shape[2] // one_in
    flat = np.stack([np.sort(rng.integers(0, shape[1] * shape[2], each)) for _ in range(shape[0])])
    places = np.stack([flat // shape[2], flat % shape[2]], axis=-1).astype(np.int32)
    floats = (flat.shape, (shape[0], shape[2], width), (shape[0], shape[1], width))
    return places, *(rng.normal(size=size).astype(np.float32) for size in floats)


def _both_ways(
    shape: Any, places: Any, data: Any, dense: Any, ct: Any
) -> Iterator[tuple[str, dict[str, Side], Any]]:
    arrays = tuple(map(jnp.asarray, (data, dense)))
    indices, cotangent = jnp.asarray(places), jnp.asarray(ct)

    def sides(product: Any) -> list[tuple[Any, Side]]:
        def forward(data: jax.Array, dense: jax.Array) -> Any:
            return product(BCOO((data, indices), shape=shape), dense)

        there = jax.jit(forward).lower(*arrays).compile()
        _, pullback = jax.vjp(jax.jit(forward), *arrays)
        back = jax.jit(lambda pull, ct: pull(ct)).lower(pullback, cotangent).compile()
        return [(there, run(there, *arrays)), (back, run(back, pullback, cotangent))]

    with impl.deterministic(profile="complete"):
        own = sides(impl.bmm)
    plain = sides(_plain)
    torch = _torch_sides(shape, places, data, dense, ct) if has_torch() else (None, None)
    for place, direction in enumerate(("forward", "backward")):
        found = {BASE: own[place][1], "plain BCOO @ dense": plain[place][1]}
        if (peer := torch[place]) is not None:
            found["PyTorch"] = peer
        yield direction, found, own[place][0]


def _plain(left: BCOO, right: jax.Array) -> Any:
    numbers = (((2,), (1,)), ((0,), (0,)))
    return jax.experimental.sparse.bcoo_dot_general(left, right, dimension_numbers=numbers)


def _torch_sides(shape: Any, places: Any, data: Any, dense: Any, ct: Any) -> tuple[Side, Side]:
    torch, device = torch_on_this_device()
    batch = np.repeat(np.arange(places.shape[0]), places.shape[1])
    every = np.stack([batch, *places.reshape(-1, 2).T.astype(np.int64)])
    indices = torch.from_numpy(every).to(device)
    values, other, cotangent = (torch.from_numpy(a).to(device) for a in (data, dense, ct))
    # Said to be coalesced, or it would be sorted every time.
    stored = torch.sparse_coo_tensor(
        indices, values.reshape(-1), shape, is_coalesced=True, check_invariants=False
    )
    stored.requires_grad_()
    other.requires_grad_()
    out = torch.bmm(stored, other)

    def synchronised(result: Any) -> Any:
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    def forward() -> Any:
        with torch.no_grad():
            return synchronised(torch.bmm(stored, other))

    def backward() -> Any:
        return synchronised(torch.autograd.grad(out, (stored, other), cotangent, retain_graph=True))

    return forward, backward
