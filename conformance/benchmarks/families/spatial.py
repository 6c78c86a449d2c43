"""Pooling, padding, interpolation and sampling, forward and backward, against PyTorch."""

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

TITLE = "Spatial ops, float32"
BASE = "ordered"
OURS = "ordered"
#: The reasons why another side is more than twice as fast.
REMARKS = (
    (
        "The maximum of a window is found one dimension at a time, by comparisons of whole arrays. "
        "PyTorch scans each window."
    ),
    "A gradient of `avg_pool2d` adds the elements of each window again, as XLA does.",
    "`interpolate` forward uses little more than one core here. PyTorch uses both.",
)

#: The batch, channels, height and width of an array in two kinds of network.
SIZES: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {"ResNet": (8, 64, 56, 56), "U-Net": (1, 64, 256, 256)}
)
#: A call of ``nn.functional`` of either library with an array and a grid.
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


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every op, size and direction; ``setting.times`` multiplies the size of a batch."""
    for network, (batch, *rest) in setting.some(SIZES).items():
        rng = np.random.default_rng(0)
        x = rng.normal(size=(batch * setting.times, *rest)).astype(np.float32)
        grid = rng.uniform(-1, 1, (batch * setting.times, *rest[1:], 2)).astype(np.float32)
        for name, op in OPS.items():
            torch_sides = _torch_sides(setting.torch, op, x, grid) if setting.torch else {}
            for direction, sides in _jax_sides(op, x, grid):
                case = {"op": name, "size": f"{network}, {list(x.shape)}", "direction": direction}
                yield Case(case, {**sides, **torch_sides.get(direction, {})}, OURS)


def _jax_sides(op: Any, x: Any, grid: Any) -> Iterator[tuple[str, dict[str, Side]]]:
    """Yields each direction with its sides."""
    value, points = jnp.asarray(x), jnp.asarray(grid)
    functions = impl.nn.functional
    with impl.deterministic(profile="complete"):
        forward = jax.jit(lambda x, g: op(functions, x, g)).lower(value, points).compile()
        out, pullback = jax.vjp(jax.jit(lambda x: op(functions, x, points)), value)
        apply = jax.jit(lambda pullback, cotangent: pullback(cotangent))
        backward = apply.lower(pullback, out).compile()
    yield "forward", {OURS: run(forward, value, points)}
    yield "backward", {OURS: run(backward, pullback, out)}


def _torch_sides(torch: TorchPeer, op: Any, x: Any, grid: Any) -> Mapping[str, Mapping[str, Side]]:
    (value,), (points,) = torch.tensors((x,), requires_grad=True), torch.tensors((grid,))

    def forward() -> Any:
        return op(torch.torch.nn.functional, value, points)

    out = forward()
    return {
        "forward": torch.forward_sides(forward),
        "backward": torch.backward_sides(out, (value,), out.detach().clone()),
    }
