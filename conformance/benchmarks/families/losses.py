"""Losses, forward and backward, against plain JAX and PyTorch."""

from __future__ import annotations

import dataclasses
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

TITLE = "Losses, float32, mean"
BASE = "jax.numpy"
OURS = "ordered"
DIRECTIONS = ("forward", "forward and backward")

#: For ctc_loss: the length of the inputs, their number, and the classes. For another loss: the
#: shape of the input, whose second axis has the classes.
SIZES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "nll_loss": (16, 21, 128, 128),
        "cross_entropy": (8192, 1000),
        "ctc_loss": (256, 32, 64),
    }
)
#: A target of ctc_loss has between half as many labels and this many.
LABELS = 40


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call of a loss.

    Attributes:
        op: The name of the function of ``nn.functional``, in either library.
        input: The argument to differentiate by.
        targets: The other arguments.
        plain: The same loss in plain JAX.
    """

    op: str
    input: Any
    targets: tuple[Any, ...]
    plain: Callable[..., Any]


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every loss, with and without gradient; ``setting.times`` multiplies its elements."""
    for op, shape in SIZES.items():
        call = (
            _ctc(op, shape, setting.times)
            if op == "ctc_loss"
            else _by_class(op, shape, setting.times)
        )
        torch_sides = _torch_sides(setting.torch, call) if setting.torch else {}
        for direction, sides in _jax_sides(call):
            case = {"op": op, "input": str(list(call.input.shape)), "direction": direction}
            yield Case(case, {**sides, **torch_sides.get(direction, {})}, OURS)


def _by_class(op: str, shape: tuple[int, ...], times: int) -> _Call:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape[0] * times, *shape[1:])).astype(np.float32)
    target = rng.integers(0, shape[1], (len(x), *shape[2:]))

    def plain(x: Any, target: Any) -> Any:
        logs = jax.nn.log_softmax(x, 1) if op == "cross_entropy" else x
        return -jnp.take_along_axis(logs, target[:, None], 1).mean()

    return _Call(op, x, (target,), plain)


def _ctc(op: str, shape: tuple[int, ...], times: int) -> _Call:
    rng = np.random.default_rng(0)
    length, n, classes = shape[0], shape[1] * times, shape[2]
    x = rng.normal(size=(length, n, classes))
    logs = (x - np.log(np.exp(x).sum(2, keepdims=True))).astype(np.float32)
    targets = rng.integers(1, classes, (n, LABELS))
    lengths = rng.integers(LABELS // 2, LABELS + 1, n)
    return _Call(op, logs, (targets, np.full(n, length), lengths), _plain_ctc)


def _plain_ctc(x: Any, targets: Any, _: Any, lengths: Any) -> Any:
    """Returns the loss by the textbook recursion, for inputs of full length."""
    n, longest = targets.shape
    classes = jnp.zeros((n, 2 * longest + 1), int).at[:, 1::2].set(targets)
    skips = classes[:, 2:] != classes[:, :-2]
    # Stands for minus infinity, whose derivative would be NaN.
    impossible = -1e5

    def step(before: Any, emitted: Any) -> Any:
        one = jnp.pad(before[:, :-1], ((0, 0), (1, 0)), constant_values=impossible)
        two = jnp.where(skips, before[:, :-2], impossible)
        two = jnp.pad(two, ((0, 0), (2, 0)), constant_values=impossible)
        return jnp.logaddexp(jnp.logaddexp(before, one), two) + emitted, None

    emitted = jnp.take_along_axis(x, classes[None], 2)
    first = jnp.where(jnp.arange(2 * longest + 1) < 2, emitted[0], impossible)
    last = jax.lax.scan(step, first, emitted[1:])[0]
    ends = jnp.take_along_axis(last, 2 * lengths[:, None] - jnp.arange(2), 1)
    return (-jnp.logaddexp(ends[:, 0], ends[:, 1]) / lengths).mean()


def _jax_sides(call: _Call) -> Iterator[tuple[str, dict[str, Side]]]:
    """Yields each direction with its sides."""
    arguments = tuple(map(jnp.asarray, (call.input, *call.targets)))

    def programs(function: Callable[..., Any]) -> list[Any]:
        functions = (function, jax.value_and_grad(function))
        return [jax.jit(function).lower(*arguments).compile() for function in functions]

    with impl.deterministic(profile="complete"):
        ordered_programs = programs(getattr(impl.nn.functional, call.op))
    plain_programs = programs(call.plain)
    for direction, ordered, plain in zip(DIRECTIONS, ordered_programs, plain_programs, strict=True):
        yield direction, {BASE: run(plain, *arguments), OURS: run(ordered, *arguments)}


def _torch_sides(torch: TorchPeer, call: _Call) -> Mapping[str, Mapping[str, Side]]:
    (value,) = torch.tensors((call.input,), requires_grad=True)
    targets = torch.tensors(call.targets)
    function = getattr(torch.torch.nn.functional, call.op)

    def loss() -> Any:
        return function(value, *targets)

    sides = (torch.forward_sides(loss), torch.forward_and_backward_sides(loss, (value,)))
    return dict(zip(DIRECTIONS, sides, strict=True))
