"""Recurrent nets, there and back, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

TITLE = "Recurrent nets, float32"
BASE = "XLA's products"
#: Of each op, how many gates a cell has.
OPS: Mapping[str, int] = MappingProxyType({"rnn_tanh": 1, "lstm": 4, "gru": 3})


class Size(NamedTuple):
    """The input, and the net."""

    steps: int
    batch: int
    features: int
    hidden: int
    layers: int
    bidirectional: bool


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "two layers": Size(50, 16, 128, 128, 2, bidirectional=False),
        "both directions": Size(50, 16, 128, 128, 1, bidirectional=True),
    }
)


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every op and size, with ``times`` as many sequences; backward is there and back."""
    for op in OPS:
        for kind, size in SIZES.items():
            own = size._replace(batch=size.batch * times)
            arrays = _arrays(op, own)
            for direction, sides, ordered in _both_ways(op, own, arrays):
                every = dict(sides)
                if has_torch():
                    every["PyTorch"] = _torch_sides(op, own, arrays)[direction]
                case = {
                    "op": op,
                    "net": f"{kind}, of {own.hidden}",
                    "input": str(list(arrays[0].shape)),
                    "direction": direction,
                }
                yield measured(case, every, ordered, rounds=rounds)


def _arrays(op: str, size: Size) -> list[Any]:
    """The input, the weights, and a state, as often as there are states."""
    rng = np.random.default_rng(0)
    rows, directions = OPS[op] * size.hidden, 1 + size.bidirectional
    shapes: list[tuple[int, ...]] = [(size.steps, size.batch, size.features)]
    for layer in range(size.layers):
        read = directions * size.hidden if layer else size.features
        shapes += [(rows, read), (rows, size.hidden), (rows,), (rows,)] * directions
    shapes += [(size.layers * directions, size.batch, size.hidden)] * (1 + (op == "lstm"))
    scale = size.hidden**-0.5
    return [rng.uniform(-scale, scale, shape).astype(np.float32) for shape in shapes]


def _output(op: str, functions: Any, size: Size, arrays: Sequence[Any]) -> Any:
    """The output, by the function of that name."""
    states = 1 + (op == "lstm")
    x, weights, hx = arrays[0], arrays[1:-states], arrays[-states:]
    flags = (True, size.layers, 0.0, False, size.bidirectional, False)
    return getattr(functions, op)(x, tuple(hx) if states > 1 else hx[0], list(weights), *flags)[0]


def _both_ways(
    op: str, size: Size, arrays: Sequence[Any]
) -> Iterator[tuple[str, dict[str, Side], Any]]:
    values = tuple(map(jnp.asarray, arrays))
    compiled: dict[str, list[Any]] = {}
    for name, on in ((BASE, False), ("ordered", True)):

        def output(*own: jax.Array) -> Any:
            return _output(op, impl.nn, size, own)

        def total(*own: jax.Array) -> Any:
            return _output(op, impl.nn, size, own).sum()

        back = jax.value_and_grad(total, tuple(range(len(values))))
        with impl.deterministic(on, profile="complete"):
            compiled[name] = [jax.jit(one).lower(*values).compile() for one in (output, back)]
    for place, direction in enumerate(("forward", "forward and backward")):
        sides = {name: run(programs[place], *values) for name, programs in compiled.items()}
        yield direction, sides, compiled["ordered"][place]


def _torch_sides(op: str, size: Size, arrays: Sequence[Any]) -> Mapping[str, Side]:
    torch, device = torch_on_this_device()
    tensors = [torch.from_numpy(array).to(device).requires_grad_() for array in arrays]

    def synchronised(function: Callable[[], Any]) -> Side:
        def side() -> object:
            result = function()
            if device == "cuda":
                torch.cuda.synchronize()
            return result

        return side

    def forward() -> Any:
        with torch.no_grad():
            return _output(op, torch, size, tensors)

    def both() -> Any:
        return torch.autograd.grad(_output(op, torch, size, tensors).sum(), tensors)

    return {"forward": synchronised(forward), "forward and backward": synchronised(both)}
