"""Pooling, padding, interpolation and sampling, there and back, against PyTorch."""

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

TITLE = "Spatial ops, float32"
BASE = "ordered"
#: Why another side is more than twice as fast.
REMARKS = (
    (
        "The greatest of a window is found one dimension at a time, by reads from a table; "
        "PyTorch scans each window."
    ),
    (
        "A gradient of `max_pool2d` and `adaptive_max_pool2d` reads, for each element, the "
        "windows over it; PyTorch writes once for each window, which on a CPU is less work."
    ),
    "`interpolate` forward keeps little more than one core busy here, and both in PyTorch.",
)

#: Batch, channels, height and width, as they stand in the two kinds of network.
SIZES: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {"ResNet": (8, 64, 56, 56), "U-Net": (1, 64, 256, 256)}
)
#: Of ``nn.functional`` of either library, an array, and a grid.
OPS: Mapping[str, Callable[[Any, Any, Any], Any]] = MappingProxyType(
    {
        "avg_pool2d(3, 2, 1)": lambda f, x, _: f.avg_pool2d(x, 3, 2, 1),
        "max_pool2d(3, 2, 1)": lambda f, x, _: f.max_pool2d(x, 3, 2, 1),
        "adaptive_avg_pool2d(7)": lambda f, x, _: f.adaptive_avg_pool2d(x, 7),
        "adaptive_max_pool2d(7)": lambda f, x, _: f.adaptive_max_pool2d(x, 7),
        "lp_pool2d(2, 3, 2)": lambda f, x, _: f.lp_pool2d(x, 2, 3, 2),
        "pad, reflect": lambda f, x, _: f.pad(x, (1, 1, 1, 1), "reflect"),
        "pad, replicate": lambda f, x, _: f.pad(x, (1, 1, 1, 1), "replicate"),
        "interpolate x2, nearest": lambda f, x, _: f.interpolate(x, scale_factor=2),
        "interpolate x2, bilinear": lambda f, x, _: f.interpolate(
            x, scale_factor=2, mode="bilinear"
        ),
        "interpolate x2, bicubic": lambda f, x, _: f.interpolate(x, scale_factor=2, mode="bicubic"),
        "grid_sample": lambda f, x, g: f.grid_sample(x, g, align_corners=False),
    }
)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every op on every size, with ``times`` as many in a batch, both ways."""
    for kind, (batch, *rest) in SIZES.items():
        rng = np.random.default_rng(0)
        x = rng.normal(size=(batch * times, *rest)).astype(np.float32)
        grid = rng.uniform(-1, 1, (batch * times, *rest[1:], 2)).astype(np.float32)
        for name, op in OPS.items():
            for direction, sides, ordered in _both_ways(op, x, grid):
                case = {"op": name, "size": f"{kind}, {list(x.shape)}", "direction": direction}
                yield measured(case, sides, ordered, rounds=rounds)


def _both_ways(op: Any, x: Any, grid: Any) -> Iterator[tuple[str, dict[str, Side], Any]]:
    value, places = jnp.asarray(x), jnp.asarray(grid)
    with impl.deterministic(profile="complete"):
        there = jax.jit(lambda x, g: op(impl.nn.functional, x, g)).lower(value, places).compile()
        out, pullback = jax.vjp(jax.jit(lambda x: op(impl.nn.functional, x, places)), value)
        back = jax.jit(lambda pull, ct: pull(ct)).lower(pullback, out).compile()
    forward = {BASE: run(there, value, places)}
    backward = {BASE: run(back, pullback, out)}
    if has_torch():
        own = _torch_sides(op, x, grid)
        forward["PyTorch"], backward["PyTorch"] = own
    yield "forward", forward, there
    yield "backward", backward, back


def _torch_sides(op: Any, x: Any, grid: Any) -> tuple[Side, Side]:
    torch, device = torch_on_this_device()
    # What has no deterministic implementation there is timed as it is.
    torch.use_deterministic_algorithms(device == "cpu")
    value = torch.from_numpy(x).to(device).requires_grad_()
    places = torch.from_numpy(grid).to(device)
    out = op(torch.nn.functional, value, places)
    cotangent = out.detach().clone()

    def synchronised(result: Any) -> Any:
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    def forward() -> Any:
        with torch.no_grad():
            return synchronised(op(torch.nn.functional, value, places))

    def backward() -> Any:
        return synchronised(torch.autograd.grad(out, value, cotangent, retain_graph=True))

    return forward, backward
