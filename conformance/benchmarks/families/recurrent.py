"""Recurrent networks, forward and backward, against PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "Recurrent nets, float32"
BASE = "XLA's products"
OURS = "ordered"
#: For each op, the number of gates of a cell.
OPS: Mapping[str, int] = MappingProxyType({"rnn_tanh": 1, "lstm": 4, "gru": 3})
DIRECTIONS = ("forward", "forward and backward")


class Size(NamedTuple):
    """The sizes of the input and of the network."""

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


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every op and size; ``setting.times`` multiplies the number of sequences."""
    for op in OPS:
        for network, base_size in setting.some(SIZES).items():
            size = base_size._replace(batch=base_size.batch * setting.times)
            arrays = _arrays(op, size)
            torch_sides = _torch_sides(setting.torch, op, size, arrays) if setting.torch else {}
            for direction, sides in _jax_sides(op, size, arrays):
                case = {
                    "op": op,
                    "net": f"{network}, of {size.hidden}",
                    "input": str(list(arrays[0].shape)),
                    "direction": direction,
                }
                yield Case(case, {**sides, **torch_sides.get(direction, {})}, OURS)


def _arrays(op: str, size: Size) -> list[Any]:
    """Returns the input, the weights, and one array for each state of the op."""
    rng = np.random.default_rng(0)
    rows, directions = OPS[op] * size.hidden, 1 + size.bidirectional
    shapes: list[tuple[int, ...]] = [(size.steps, size.batch, size.features)]
    for layer in range(size.layers):
        columns = directions * size.hidden if layer else size.features
        shapes += [(rows, columns), (rows, size.hidden), (rows,), (rows,)] * directions
    shapes += [(size.layers * directions, size.batch, size.hidden)] * (1 + (op == "lstm"))
    scale = size.hidden**-0.5
    return [rng.uniform(-scale, scale, shape).astype(np.float32) for shape in shapes]


def _output(op: str, functions: Any, size: Size, arrays: Sequence[Any]) -> Any:
    """Returns the output of the op, from the functions of either library."""
    states = 1 + (op == "lstm")
    x, weights, hx = arrays[0], arrays[1:-states], arrays[-states:]
    flags = (True, size.layers, 0.0, False, size.bidirectional, False)
    return getattr(functions, op)(x, tuple(hx) if states > 1 else hx[0], list(weights), *flags)[0]


def _jax_sides(op: str, size: Size, arrays: Sequence[Any]) -> Iterator[tuple[str, dict[str, Side]]]:
    """Yields each direction with its sides."""
    values = tuple(map(jnp.asarray, arrays))
    programs: dict[str, list[Any]] = {}
    for name, mode in ((BASE, False), ("ordered", True)):

        def output(*arguments: jax.Array) -> Any:
            return _output(op, impl.nn, size, arguments)

        def total(*arguments: jax.Array) -> Any:
            return _output(op, impl.nn, size, arguments).sum()

        with_gradients = jax.value_and_grad(total, tuple(range(len(values))))
        with impl.deterministic(mode, profile="complete"):
            programs[name] = [
                jax.jit(function).lower(*values).compile() for function in (output, with_gradients)
            ]
    for index, direction in enumerate(DIRECTIONS):
        yield (
            direction,
            {name: run(compiled[index], *values) for name, compiled in programs.items()},
        )


def _torch_sides(
    torch: TorchPeer, op: str, size: Size, arrays: Sequence[Any]
) -> Mapping[str, Mapping[str, Side]]:
    tensors = torch.tensors(arrays, requires_grad=True)

    def output() -> Any:
        return _output(op, torch.torch, size, tensors)

    sides = (
        torch.forward_sides(output),
        torch.forward_and_backward_sides(lambda: output().sum(), tensors),
    )
    return dict(zip(DIRECTIONS, sides, strict=True))
