"""Functions of ``nn.functional`` and recurrent networks, against PyTorch and plain JAX.

Each family yields cases, with a description by column and with sides. Two of them, without
PyTorch::

    convs    {"layer": "first", "size": "[8, 3, 224, 224], [64, 3, 7, 7], stride 2",
              "direction": "forward"}      sides "XLA's convolution" and "ordered"
    losses   {"op": "nll_loss", "input": "[16, 21, 128, 128]",
              "direction": "forward"}      sides "jax.numpy" and "ordered"
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.benchmarks.engine import Benchmark, Case, Setting, compared

#: The functions of either library.
_FUNCTIONAL = (impl.nn.functional, operator.attrgetter("nn.functional"))


class Conv(NamedTuple):
    """The sizes of the input and of a convolution."""

    batch: int
    channels: int
    side: int
    outputs: int
    kernel: int
    stride: int
    padding: int


CONVS: Mapping[str, Conv] = MappingProxyType(
    {
        "first": Conv(8, 3, 224, 64, 7, 2, 3),
        "64 channels": Conv(8, 64, 56, 64, 3, 1, 1),
        "128 channels": Conv(8, 128, 28, 128, 3, 1, 1),
        "512 channels": Conv(8, 512, 7, 512, 3, 1, 1),
        "downsampling": Conv(8, 64, 56, 128, 3, 2, 1),
    }
)


def convs(setting: Setting) -> Iterator[Case]:
    """Yields the convolutions of a ResNet. The backward direction computes both gradients."""
    for layer, size in setting.some(CONVS).items():
        shapes = (
            (size.batch, size.channels, size.side, size.side),
            (size.outputs, size.channels, size.kernel, size.kernel),
        )
        sizes = f"{list(shapes[0])}, {list(shapes[1])}, stride {size.stride}"
        yield from compared(
            setting,
            {"layer": layer, "size": sizes},
            functools.partial(_conv, size),
            _normal(*shapes),
            libraries=_FUNCTIONAL,
            plain=("XLA's convolution", None),
            wrt=(0, 1),
        )


def _conv(size: Conv, functions: Any, x: Any, weight: Any) -> Any:
    return functions.conv2d(x, weight, None, size.stride, size.padding)


#: The batch, channels, height and width of an array in two kinds of network.
IMAGES: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {"ResNet": (8, 64, 56, 56), "U-Net": (1, 64, 256, 256)}
)
#: A call of ``nn.functional`` of either library with an array and a grid.
SPATIAL: Mapping[str, Callable[[Any, Any, Any], Any]] = MappingProxyType(
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


def spatial(setting: Setting) -> Iterator[Case]:
    """Yields pooling, padding, interpolation and sampling at every size."""
    for network, shape in setting.some(IMAGES).items():
        (x,) = _normal(shape)
        grid = np.random.default_rng(1).uniform(-1, 1, (shape[0], *shape[2:], 2))
        for name, op in SPATIAL.items():
            about = {"op": name, "size": f"{network}, {list(shape)}"}
            arrays = (x, grid.astype(np.float32))
            yield from compared(setting, about, op, arrays, libraries=_FUNCTIONAL, wrt=(0,))


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
    "convs": Benchmark(
        "conv2d, float32",
        "XLA's convolution",
        "ordered",
        convs,
        ("PyTorch's library blocks images and weights for the cache. XLA's does not.",),
    ),
    "spatial": Benchmark(
        "Spatial ops, float32",
        "ordered",
        "ordered",
        spatial,
        (
            "The maximum of a window is found one dimension at a time. PyTorch scans each window.",
            "A gradient of `avg_pool2d` adds the elements of each window again, as XLA does.",
            "`interpolate` forward uses little more than one core here. PyTorch uses both.",
        ),
    ),
    "losses": Benchmark("Losses, float32, mean", "plain JAX", "ordered", losses),
    "recurrent": Benchmark("Recurrent nets, float32", "XLA's products", "ordered", recurrent),
}
