"""Losses, there and back, against PyTorch and plain jax.numpy."""

from __future__ import annotations

import dataclasses
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

TITLE = "Losses, float32, mean"
BASE = "ordered"

#: Of ctc_loss the length of the inputs, their number, and the number of classes; of the others
#: the shape of the input, of which the second axis are the classes.
SIZES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "nll_loss": (16, 21, 128, 128),
        "cross_entropy": (8192, 1000),
        "ctc_loss": (256, 32, 64),
    }
)
#: Targets of ctc_loss have from half as many labels up to this many.
LABELS = 40


@dataclasses.dataclass(frozen=True)
class _Case:
    """What is called: ``op`` of ``nn.functional`` of either library, with these arrays."""

    op: str
    input: Any
    targets: tuple[Any, ...]
    plain: Callable[..., Any]


def measure(*, times: int, rounds: int) -> Iterator[Measured]:
    """Measures every loss, of ``times`` as many elements, forward and with its gradient."""
    for op, shape in SIZES.items():
        case = _ctc(op, shape, times) if op == "ctc_loss" else _by_class(op, shape, times)
        for direction, sides, ordered in _both_ways(case):
            name = {"op": op, "input": str(list(case.input.shape)), "direction": direction}
            yield measured(name, sides, ordered, rounds=rounds)


def _by_class(op: str, shape: tuple[int, ...], times: int) -> _Case:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape[0] * times, *shape[1:])).astype(np.float32)
    target = rng.integers(0, shape[1], (len(x), *shape[2:]))

    def plain(x: Any, target: Any) -> Any:
        logs = jax.nn.log_softmax(x, 1) if op == "cross_entropy" else x
        return -jnp.take_along_axis(logs, target[:, None], 1).mean()

    return _Case(op, x, (target,), plain)


def _ctc(op: str, shape: tuple[int, ...], times: int) -> _Case:
    rng = np.random.default_rng(0)
    length, n, classes = shape[0], shape[1] * times, shape[2]
    x = rng.normal(size=(length, n, classes))
    logs = (x - np.log(np.exp(x).sum(2, keepdims=True))).astype(np.float32)
    targets = rng.integers(1, classes, (n, LABELS))
    lengths = rng.integers(LABELS // 2, LABELS + 1, n)
    return _Case(op, logs, (targets, np.full(n, length), lengths), _plain_ctc)


def _plain_ctc(x: Any, targets: Any, _: Any, lengths: Any) -> Any:
    """As one writes it down, for inputs of full length; its gradient is JAX's own."""
    n, longest = targets.shape
    classes = jnp.zeros((n, 2 * longest + 1), int).at[:, 1::2].set(targets)
    skips = classes[:, 2:] != classes[:, :-2]
    # In place of minus infinity, whose derivative is NaN.
    nothing = -1e5

    def step(before: Any, emitted: Any) -> Any:
        one = jnp.pad(before[:, :-1], ((0, 0), (1, 0)), constant_values=nothing)
        two = jnp.where(skips, before[:, :-2], nothing)
        two = jnp.pad(two, ((0, 0), (2, 0)), constant_values=nothing)
        return jnp.logaddexp(jnp.logaddexp(before, one), two) + emitted, None

    emitted = jnp.take_along_axis(x, classes[None], 2)
    first = jnp.where(jnp.arange(2 * longest + 1) < 2, emitted[0], nothing)
    last = jax.lax.scan(step, first, emitted[1:])[0]
    ends = jnp.take_along_axis(last, 2 * lengths[:, None] - jnp.arange(2), 1)
    return (-jnp.logaddexp(ends[:, 0], ends[:, 1]) / lengths).mean()


def _both_ways(case: _Case) -> Iterator[tuple[str, dict[str, Side], Any]]:
    value, targets = jnp.asarray(case.input), tuple(map(jnp.asarray, case.targets))

    def programs(function: Callable[..., Any]) -> list[Any]:
        both = (function, jax.value_and_grad(function))
        return [jax.jit(one).lower(value, *targets).compile() for one in both]

    with impl.deterministic(profile="complete"):
        ordered = programs(getattr(impl.nn.functional, case.op))
    sides = [{BASE: run(program, value, *targets)} for program in ordered]
    for side, program in zip(sides, programs(case.plain), strict=True):
        side["jax.numpy"] = run(program, value, *targets)
    if has_torch():
        for side, own in zip(sides, _torch_sides(case), strict=True):
            side["PyTorch"] = own
    yield "forward", sides[0], ordered[0]
    yield "forward and backward", sides[1], ordered[1]


def _torch_sides(case: _Case) -> tuple[Side, Side]:
    torch, device = torch_on_this_device()
    # What has no deterministic implementation there is timed as it is.
    torch.use_deterministic_algorithms(device == "cpu")
    value = torch.from_numpy(case.input).to(device).requires_grad_()
    targets = [torch.from_numpy(target).to(device) for target in case.targets]
    function = getattr(torch.nn.functional, case.op)

    def synchronised(result: Any) -> Any:
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    def forward() -> Any:
        with torch.no_grad():
            return synchronised(function(value, *targets))

    def both() -> Any:
        return synchronised(torch.autograd.grad(function(value, *targets), value))

    return forward, both
