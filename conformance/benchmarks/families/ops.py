"""Scatters, sparse products, losses and recurrent networks, against plain JAX and PyTorch.

Each family yields cases, with a description by column and with sides. Two of them, without
PyTorch::

    scatters   {"destinations": "100,000", "contributions": "1,000,000", "width": "1",
                "indices": "uniform"}      sides "plain `.at[].add`", "mode off" and "ordered"
    losses     {"op": "nll_loss", "input": "[16, 21, 128, 128]",
                "direction": "forward"}    sides "plain JAX" and "ordered"
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
from jax.experimental.sparse import BCOO, bcoo_dot_general

import impl
from conformance.benchmarks.engine import (
    MODE_OFF,
    MODE_ON,
    Benchmark,
    Case,
    Setting,
    compared,
    compiled,
)
from conformance.benchmarks.families.calls import CURVE
from conformance.benchmarks.torch_peer import Side

#: The functions of either library.
_LIBRARIES = (impl, lambda torch: torch)
#: The destinations, the contributions, and the width of each contribution.
SCATTERS = (
    (100_000, 1_000_000, 1),
    (10_000, 100_000, 64),
    (50_000, 65_536, 1024),
    (1_000, 10_000_000, 1),
    (10, 1_000_000, 1),
    (1, 10_000_000, 1),
)
#: The sizes that are measured with every distribution of indices.
SKEWED = ((100_000, 1_000_000, 1), (10_000, 100_000, 64))
#: The exponent of Zipf's law: of the destinations, the k-th has a share of 1 / k**1.1.
ZIPF = 1.1


def _zipf(rng: np.random.Generator, destinations: int, count: int) -> Any:
    shares = np.cumsum(np.arange(1, destinations + 1) ** -ZIPF)
    ranks = np.searchsorted(shares / shares[-1], rng.random(count)).clip(max=destinations - 1)
    # The frequent destinations are not neighbours.
    return rng.permutation(destinations)[ranks]


#: How many contributions meet at one destination: ``count`` indices below ``destinations``.
DISTRIBUTIONS: Mapping[str, Callable[[np.random.Generator, int, int], Any]] = MappingProxyType(
    {
        "uniform": lambda rng, destinations, count: rng.integers(0, destinations, count),
        f"Zipf {ZIPF}": _zipf,
        "one hot": lambda _, destinations, count: np.full(count, destinations // 2),
        "sorted": lambda rng, destinations, count: np.sort(rng.integers(0, destinations, count)),
        "unique": lambda rng, destinations, count: rng.permutation(destinations)[:count],
    }
)


def scatters(setting: Setting) -> Iterator[Case]:
    """Yields sizes, distributions of indices, and a curve over the number of contributions."""
    for size in setting.some(SCATTERS, 2):
        yield from _scatter(setting, size, "uniform")
    for destinations, count, width in setting.some(SKEWED):
        for distribution in list(DISTRIBUTIONS)[1:]:
            used = min(count, destinations) if distribution == "unique" else count
            yield from _scatter(setting, (destinations, used, width), distribution)
    for count in setting.some(CURVE, 4):
        yield from _scatter(setting, (count // 10, count, 1), "uniform", n=count)


def _scatter(
    setting: Setting, size: tuple[int, int, int], distribution: str, n: int | None = None
) -> Iterator[Case]:
    """Yields a case, if it fits into the memory."""
    destinations, count, width = size
    if not setting.fits(4 * (count * (width + 1) + 2 * destinations * width)):
        return
    widths = (width,) if width > 1 else ()
    draw = DISTRIBUTIONS[distribution]
    arrays = (
        np.zeros((destinations, *widths), np.float32),
        draw(np.random.default_rng(0), destinations, count).astype(np.int32),
        np.random.default_rng(1).normal(size=(count, *widths)).astype(np.float32),
    )
    values = tuple(map(jnp.asarray, arrays))
    op = functools.partial(_index_add, impl)
    sides: dict[str, Side] = {
        "plain `.at[].add`": compiled(lambda x, i, s: x.at[i].add(s), values, MODE_OFF),
        "mode off": compiled(op, values, MODE_OFF),
        "ordered": compiled(op, values, MODE_ON),
    }
    if setting.torch:
        theirs = functools.partial(_index_add, setting.torch.torch)
        tensors = setting.torch.tensors(arrays)
        sides |= setting.torch.sides(lambda: theirs(*tensors))
    names = ("destinations", "contributions", "width")
    about = {name: f"{number:,}" for name, number in zip(names, size, strict=True)}
    yield Case({**about, "indices": distribution}, sides, n=n)


def _index_add(library: Any, x: Any, index: Any, source: Any) -> Any:
    return library.index_add(x, 0, index, source)


#: The batch, the rows and columns of the sparse operand, the inverse of its density, and the
#: columns of the dense operand.
SPARSE = ((8, 4096, 4096, 1000, 64),)


def sparse(setting: Setting) -> Iterator[Case]:
    """Yields products with a sparse left operand, differentiated by its elements and the right."""
    for batch, rows, columns, one_in, width in SPARSE:
        rng = np.random.default_rng(0)
        stored = rows * columns // one_in
        flat = np.stack([np.sort(rng.integers(0, rows * columns, stored)) for _ in range(batch)])
        indices = np.stack([flat // columns, flat % columns], axis=-1).astype(np.int32)
        shapes = flat.shape, (batch, columns, width)
        data, dense = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
        shape = (batch, rows, columns)
        sizes = f"{list(shape)}, 1 in {one_in:,}, by {list(dense.shape)}"
        yield from compared(
            setting,
            {"size": sizes},
            functools.partial(_bmm, shape),
            (data, dense, indices, _of_batches(indices)),
            libraries=_LIBRARIES,
            plain=("plain BCOO @ dense", functools.partial(_plain_bmm, shape)),
            wrt=(0, 1),
        )


def _of_batches(indices: Any) -> Any:
    """Returns the indices as PyTorch has them: of the batch, the row and the column."""
    batch = np.repeat(np.arange(len(indices)), indices.shape[1])
    return np.stack([batch, *indices.reshape(-1, 2).T.astype(np.int64)])


def _bmm(shape: tuple[int, int, int], library: Any, data: Any, dense: Any, *indices: Any) -> Any:
    if library is impl:
        return impl.bmm(BCOO((data, indices[0]), shape=shape), dense)
    # Declared as coalesced: PyTorch would otherwise sort it in every call.
    left = library.sparse_coo_tensor(
        indices[1], data.reshape(-1), shape, is_coalesced=True, check_invariants=False
    )
    return library.bmm(left, dense)


def _plain_bmm(shape: tuple[int, int, int], data: Any, dense: Any, indices: Any, _: Any) -> Any:
    numbers = (((2,), (1,)), ((0,), (0,)))
    return bcoo_dot_general(BCOO((data, indices), shape=shape), dense, dimension_numbers=numbers)


#: The functions of ``nn`` of either library.
_FUNCTIONAL = (impl.nn.functional, operator.attrgetter("nn.functional"))


#: For ctc_loss: the length of the inputs, their number, and the classes. For another loss: the
#: shape of the input, whose second axis has the classes.
LOSSES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"nll_loss": (16, 21, 128, 128), "cross_entropy": (8192, 1000), "ctc_loss": (256, 32, 64)}
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
    "scatter": Benchmark(
        "index_add, float32",
        "plain `.at[].add`",
        "ordered",
        scatters,
        ("The sizes from 1,000 to 100,000,000 contributions have a tenth as many destinations.",),
    ),
    "sparse": Benchmark(
        "bmm with a sparse left operand, float32", "plain BCOO @ dense", "ordered", sparse
    ),
    "losses": Benchmark("Losses, float32, mean", "plain JAX", "ordered", losses),
    "recurrent": Benchmark("Recurrent nets, float32", "XLA's products", "ordered", recurrent),
}
