"""Losses and recurrent networks, against PyTorch and plain JAX."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.engine import Benchmark, Case, Setting, compared

#: The functions of either library.
_FUNCTIONAL = (impl.nn.functional, operator.attrgetter("nn.functional"))


#: For ctc_loss: the length of the inputs, their number, and the classes. For another loss: the
#: shape of the input, whose second axis has the classes.
LOSSES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "nll_loss": (16, 21, 128, 128),
        "cross_entropy": (8192, 1000),
        "ctc_loss": (256, 32, 64),
    }
)
#: A target of ctc_loss has between half as many labels and this many.
LABELS = 40


def losses(setting: Setting) -> Iterator[Case]:
    """Yields the losses, with the same in plain JAX and Optax."""
    for op, shape in LOSSES.items():
        (x,) = _normal(shape)
        if op == "ctc_loss":
            x, targets = x - np.log(np.exp(x).sum(2, keepdims=True)), _ctc_targets(shape)
        else:
            labels = np.random.default_rng(0).integers(0, shape[1], (shape[0], *shape[2:]))
            targets = (labels,)
        plain = _plain_ctc if op == "ctc_loss" else functools.partial(_plain_by_class, op)
        yield from compared(
            setting,
            {"op": op, "input": str(list(shape))},
            functools.partial(_loss, op),
            (x, *targets),
            libraries=_FUNCTIONAL,
            plain=("plain JAX", plain),
            wrt=(0,),
        )


def _loss(op: str, functions: Any, *arrays: Any) -> Any:
    return getattr(functions, op)(*arrays)


def _plain_by_class(op: str, x: Any, target: Any) -> Any:
    logs = jax.nn.log_softmax(x, 1) if op == "cross_entropy" else x
    return -jnp.take_along_axis(logs, target[:, None], 1).mean()


def _ctc_targets(shape: tuple[int, ...]) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    length, n, classes = shape
    labels = rng.integers(1, classes, (n, LABELS))
    return labels, np.full(n, length), rng.integers(LABELS // 2, LABELS + 1, n)


def _plain_ctc(x: Any, targets: Any, _: Any, lengths: Any) -> Any:
    import optax  # noqa: PLC0415  # Other families do without it.

    paddings = jnp.arange(targets.shape[1]) >= lengths[:, None]
    logits = x.swapaxes(0, 1)
    return (optax.ctc_loss(logits, jnp.zeros(logits.shape[:2]), targets, paddings) / lengths).mean()


class Net(NamedTuple):
    """The sizes of the input and of a recurrent network."""

    steps: int
    batch: int
    features: int
    hidden: int
    layers: int
    bidirectional: bool


NETS: Mapping[str, Net] = MappingProxyType(
    {
        "two layers": Net(50, 16, 128, 128, 2, bidirectional=False),
        "both directions": Net(50, 16, 128, 128, 1, bidirectional=True),
    }
)
#: For each recurrent op, the number of gates of a cell.
GATES: Mapping[str, int] = MappingProxyType({"rnn_tanh": 1, "lstm": 4, "gru": 3})


def recurrent(setting: Setting) -> Iterator[Case]:
    """Yields every op and size, differentiated by the input, the weights and the states."""
    for op in GATES:
        for network, size in setting.some(NETS).items():
            arrays = _of_net(op, size)
            about = {
                "op": op,
                "net": f"{network}, of {size.hidden}",
                "input": str(list(arrays[0].shape)),
            }
            yield from compared(
                setting,
                about,
                functools.partial(_outputs, op, size),
                arrays,
                libraries=(impl.nn, lambda torch: torch),
                plain=("XLA's products", None),
                wrt=range(len(arrays)),
            )


def _of_net(op: str, size: Net) -> list[Any]:
    """Returns the input, the weights, and one array for each state of the op."""
    rng = np.random.default_rng(0)
    rows, directions = GATES[op] * size.hidden, 1 + size.bidirectional
    shapes: list[tuple[int, ...]] = [(size.steps, size.batch, size.features)]
    for layer in range(size.layers):
        columns = directions * size.hidden if layer else size.features
        shapes += [(rows, columns), (rows, size.hidden), (rows,), (rows,)] * directions
    shapes += [(size.layers * directions, size.batch, size.hidden)] * (1 + (op == "lstm"))
    scale = size.hidden**-0.5
    return [rng.uniform(-scale, scale, shape).astype(np.float32) for shape in shapes]


def _outputs(op: str, size: Net, library: Any, *arrays: Any) -> Any:
    states = 1 + (op == "lstm")
    x, weights, hx = arrays[0], arrays[1:-states], arrays[-states:]
    flags = (True, size.layers, 0.0, False, size.bidirectional, False)
    return getattr(library, op)(x, tuple(hx) if states > 1 else hx[0], list(weights), *flags)[0]


def _normal(*shapes: Sequence[int]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


FAMILIES = {
    "losses": Benchmark("Losses, float32, mean", "plain JAX", "ordered", losses),
    "recurrent": Benchmark("Recurrent nets, float32", "XLA's products", "ordered", recurrent),
}
