"""Two-dimensional convolutions as they stand in a ResNet, there and back, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

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

TITLE = "conv2d, float32"
BASE = "XLA's convolution"
#: Why another side is more than twice as fast.
REMARKS = (
    (
        "PyTorch's library blocks images and weights for the cache; here each run of taps is "
        "one matrix product over rows of the image, which XLA has to copy."
    ),
)


class Size(NamedTuple):
    """The input, and the convolution."""

    batch: int
    channels: int
    side: int
    outputs: int
    kernel: int
    stride: int
    padding: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "first": Size(8, 3, 224, 64, 7, 2, 3),
        "64 channels": Size(8, 64, 56, 64, 3, 1, 1),
        "128 channels": Size(8, 128, 28, 128, 3, 1, 1),
        "512 channels": Size(8, 512, 7, 512, 3, 1, 1),
        "downsampling": Size(8, 64, 56, 128, 3, 2, 1),
    }
)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every size, with ``times`` as many in a batch, and both gradients at once."""
    for kind, size in SIZES.items():
        rng = np.random.default_rng(0)
        shape = (size.batch * times, size.channels, size.side, size.side)
        weight = (size.outputs, size.channels, size.kernel, size.kernel)
        arrays = tuple(rng.normal(size=s).astype(np.float32) for s in (shape, weight))
        for direction, sides, ordered in _both_ways(size, *map(jnp.asarray, arrays)):
            own = dict(sides)
            if has_torch():
                own["PyTorch"] = _torch_sides(size, *arrays)[direction]
            case = {
                "layer": kind,
                "size": f"{list(shape)}, {list(weight)}, stride {size.stride}",
                "direction": direction,
            }
            yield measured(case, own, ordered, rounds=rounds)


def _both_ways(
    size: Size, x: jax.Array, w: jax.Array
) -> Iterator[tuple[str, dict[str, Side], Any]]:
    forward: dict[str, Side] = {}
    backward: dict[str, Side] = {}
    for name, on in ((BASE, False), ("ordered", True)):

        def op(x: jax.Array, w: jax.Array) -> jax.Array:
            return impl.nn.functional.conv2d(x, w, None, size.stride, size.padding)

        with impl.deterministic(on, profile="complete"):
            there = jax.jit(op).lower(x, w).compile()
            # Not of one traced function: the second mode would be served by the first's.
            out, pullback = jax.vjp(jax.jit(op), x, w)
            back = jax.jit(lambda pull, ct: pull(ct)).lower(pullback, out).compile()
        forward[name] = run(there, x, w)
        backward[name] = run(back, pullback, out)
    yield "forward", forward, there
    yield "backward", backward, back


def _torch_sides(size: Size, x: Any, w: Any) -> Mapping[str, Side]:
    torch, device = torch_on_this_device()
    arrays = [torch.from_numpy(array).to(device).requires_grad_() for array in (x, w)]

    def op() -> Any:
        return torch.nn.functional.conv2d(*arrays, None, size.stride, size.padding)

    out = op()
    cotangent = out.detach().clone()

    def synchronised(function: Callable[[], Any]) -> Side:
        def side() -> object:
            result = function()
            if device == "cuda":
                torch.cuda.synchronize()
            return result

        return side

    def forward() -> Any:
        with torch.no_grad():
            return op()

    def backward() -> Any:
        return torch.autograd.grad(out, arrays, cotangent, retain_graph=True)

    return {"forward": synchronised(forward), "backward": synchronised(backward)}
