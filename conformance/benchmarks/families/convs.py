"""Two-dimensional convolutions of a ResNet, forward and backward, against PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "conv2d, float32"
BASE = "XLA's convolution"
OURS = "ordered"
#: The reason why another side is more than twice as fast.
REMARKS = (
    ("PyTorch's library blocks images and weights for the cache. The convolution here is XLA's."),
)


class Size(NamedTuple):
    """The sizes of the input and of the convolution."""

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


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every size; ``setting.times`` multiplies the number of images.

    The backward direction computes both gradients.
    """
    for layer, size in setting.some(SIZES).items():
        rng = np.random.default_rng(0)
        shape = (size.batch * setting.times, size.channels, size.side, size.side)
        weight = (size.outputs, size.channels, size.kernel, size.kernel)
        arrays = tuple(rng.normal(size=s).astype(np.float32) for s in (shape, weight))
        torch_sides = _torch_sides(setting.torch, size, *arrays) if setting.torch else {}
        for direction, sides in _jax_sides(size, *map(jnp.asarray, arrays)):
            case = {
                "layer": layer,
                "size": f"{list(shape)}, {list(weight)}, stride {size.stride}",
                "direction": direction,
            }
            yield Case(case, {**sides, **torch_sides.get(direction, {})}, OURS)


def _jax_sides(size: Size, x: jax.Array, w: jax.Array) -> Iterator[tuple[str, dict[str, Side]]]:
    """Yields each direction with its sides."""
    forward: dict[str, Side] = {}
    backward: dict[str, Side] = {}
    for name, mode in ((BASE, False), ("ordered", True)):

        def op(x: jax.Array, w: jax.Array) -> jax.Array:
            return impl.nn.functional.conv2d(x, w, None, size.stride, size.padding)

        with impl.deterministic(mode, profile="complete"):
            forward_program = jax.jit(op).lower(x, w).compile()
            # A new function for each mode: JAX would reuse the trace of the first.
            out, pullback = jax.vjp(jax.jit(op), x, w)
            apply = jax.jit(lambda pullback, cotangent: pullback(cotangent))
            backward_program = apply.lower(pullback, out).compile()
        forward[name] = run(forward_program, x, w)
        backward[name] = run(backward_program, pullback, out)
    yield "forward", forward
    yield "backward", backward


def _torch_sides(torch: TorchPeer, size: Size, *arrays: Any) -> Mapping[str, Mapping[str, Side]]:
    tensors = torch.tensors(arrays, requires_grad=True)

    def op() -> Any:
        return torch.torch.nn.functional.conv2d(*tensors, None, size.stride, size.padding)

    out = op()
    return {
        "forward": torch.forward_sides(op),
        "backward": torch.backward_sides(out, tensors, out.detach().clone()),
    }
