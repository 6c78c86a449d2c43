"""The guarantee ``portable``: the cost of training steps and of scatters, and of compiling them.

A transformer of width 256, a block of a ResNet, and scatters run in plain JAX, under the guarantee
``run_to_run``, which is the mode's default, and under ``portable``. The programs that are trained
also run with their batch over eight devices. On a machine with one CPU, another process stands for
these: the CPU has as many devices there. A case is a line of the table, with a side in each scope::

    | program     | devices | part    | plain | run_to_run | portable    |
    | transformer | 8       | compile | 2,000 | 2,000      | 15,000 (7.5) |

The numbers are made up.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.flagged_process import Server
from conformance.benchmarks.machine import on_cpu
from conformance.benchmarks.sides import Scope, Side, run
from conformance.programs import Program, plain

TITLE = "The guarantee portable, float32"
BASE = "plain"
OURS = "portable"
#: The side that runs once more under XLA's deterministic flags.
UNDER_FLAGS = BASE
REMARKS = (
    "Transformer: 2 layers, width 256, 4 heads, length 64, batch 32, 128 words, a step of Adam.",
    "ResNet: the gradient of two convolutions with batch norm, 8 x 16 x 16 x 64.",
    "Compile: to trace, lower and compile with empty caches.",
    "Eight devices of a CPU share its threads, and have a batch together.",
)
#: The most devices over which a batch is cut.
DEVICES = 8

#: Rows, the elements of a row, and the rows that these are added to.
SCATTERS = ((1_000_000, 1, 100_000), (1_000_000, 1, 10), (100_000, 64, 10_000))

#: The scope that each side is compiled in.
SCOPES: Mapping[str, Scope] = {
    BASE: functools.partial(impl.deterministic, False),
    "run_to_run": functools.partial(impl.deterministic, guarantee="run_to_run"),
    "portable": functools.partial(impl.deterministic, guarantee="portable"),
}


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every program, on ``times`` batches or rows, and trained ones on several devices."""
    devices = min(jax.device_count(), DEVICES)
    for name, program in _programs(setting, devices).items():
        step, args = program
        compiled = {side: _compiled(scope, step, args) for side, scope in SCOPES.items()}
        steps = {side: run(each, *args) for side, each in compiled.items()}
        yield Case(_about(name, devices, "run"), steps, OURS)
        compilations: dict[str, Side] = {
            side: functools.partial(_compiled, scope, step, args) for side, scope in SCOPES.items()
        }
        yield Case(_about(name, devices, "compile"), compilations, OURS, few=True)
    if devices < DEVICES and on_cpu():
        yield from _cases_elsewhere(setting)


def _cases_elsewhere(setting: Setting) -> Iterator[Case]:
    """Yields the programs on several devices, whose sides run in a process that has these."""
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    name = __name__.rpartition(".")[2]
    with contextlib.closing(Server(name, setting, flags)) as server:
        for program in PROGRAMS:
            for part in ("run", "compile"):
                about = _about(program, DEVICES, part)
                sides = server.sides(about, {side: side for side in SCOPES})
                yield Case(about, sides, OURS, few=part == "compile")


def _about(program: str, devices: int, part: str) -> dict[str, str]:
    return {"program": program, "devices": str(devices), "part": part}


def _compiled(scope: Scope, step: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Traces, lowers and compiles a program inside a scope."""
    jax.clear_caches()
    with scope():
        return jax.jit(step).lower(*args).compile()


def _programs(setting: Setting, devices: int) -> dict[str, Program]:
    """Returns the programs and their arguments, by name; only those that are trained on several."""
    found = {name: program(setting.times) for name, program in PROGRAMS.items()}
    if devices > 1:
        return {name: (step, _shared(args, devices)) for name, (step, args) in found.items()}
    for rows, width, destinations in SCATTERS:
        name = f"{rows * setting.times:,} x {width} into {destinations:,}"
        found[name] = _scatter(rows * setting.times, width, destinations)
    return found


def _shared(args: tuple[Any, ...], devices: int) -> tuple[Any, ...]:
    """Returns the arguments of a program on several devices, which cut the last one, a batch."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("data",))
    whole, cut = (NamedSharding(mesh, spec) for spec in (P(), P("data")))
    *others, batch = args
    return *jax.device_put(others, whole), jax.device_put(batch, cut)


def _resnet(times: int) -> Program:
    rng = np.random.default_rng(0)
    image = jnp.asarray(rng.normal(size=(8 * times, 16, 16, 64)), np.float32)
    kernels = tuple(jnp.asarray(rng.normal(size=(3, 3, 64, 64)) / 24, np.float32) for _ in "12")
    scales = tuple(jnp.ones((64,), np.float32) for _ in "12")

    def normed(x: jax.Array, scale: jax.Array) -> jax.Array:
        return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)

    def loss(kernels: Any, scales: Any, image: jax.Array) -> jax.Array:
        x = jax.nn.relu(normed(convolved(image, kernels[0]), scales[0]))
        x = jax.nn.relu(image + normed(convolved(x, kernels[1]), scales[1]))
        return (x**2).mean()

    return jax.value_and_grad(loss, (0, 1, 2)), (kernels, scales, image)


def _scatter(rows: int, width: int, destinations: int) -> Program:
    rng = np.random.default_rng(0)
    shape = (width,) if width > 1 else ()
    target = jnp.zeros((destinations, *shape), np.float32)
    index = jnp.asarray(rng.integers(0, destinations, rows), np.int32)
    source = jnp.asarray(rng.normal(size=(rows, *shape)), np.float32)

    def add(target: jax.Array, index: jax.Array, source: jax.Array) -> jax.Array:
        return target.at[index].add(source)

    return add, (target, index, source)


#: The programs that are trained: each takes the factor of the size of a batch.
PROGRAMS: Mapping[str, Callable[[int], Program]] = {
    "transformer": lambda times: plain.transformer(256, 4, 2, 64, 32 * times, 128),
    "ResNet block": _resnet,
}
