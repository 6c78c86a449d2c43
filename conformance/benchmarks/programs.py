"""Programs of plain JAX: the cost of the mode when they run, and when they are traced and lowered.

The programs are small, so what the mode adds to each operation counts for more than in a training.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from conformance.benchmarks.mode_scopes import BASE, SCOPES, Scope
from conformance.benchmarks.timing import Measurement, Side, measure_case, run
from conformance.benchmarks.torch_peer import TorchPeer
from impl.tests.support import user_programs

#: Each returns a step and its arguments.
PROGRAMS: Sequence[Callable[[], Any]] = user_programs.PROGRAMS

TITLE = "Programs of plain JAX, float32"
REMARKS = (
    f"`{BASE}`: the rules for JAX's primitives are turned off.",
    "`mode off`: they are registered, as they are after `import impl`.",
    "On a CPU the runs of the three sides are one program: their ratios show the noise.",
    "Each program is traced and lowered with empty caches, and compiled elsewhere.",
)


def measure(*, times: int, rounds: int, torch: TorchPeer | None) -> Iterator[Measurement]:
    """Measures every program, on ``times`` batches of its arguments."""
    del torch
    for program in PROGRAMS:
        step, args = program()
        if times > 1:
            step, args = jax.vmap(step), jax.tree.map(lambda a: jnp.stack([a] * times), args)
        compiled = {name: _lower(scope, step, args).compile() for name, scope in SCOPES.items()}
        name = program.__name__.replace("_", " ")
        runs = {side: run(compiled[side], *args) for side in SCOPES}
        yield measure_case(
            {"program": name, "part": "run"}, runs, compiled["ordered"], rounds=rounds
        )
        lowerings: dict[str, Side] = {
            side: functools.partial(_lower, scope, step, args) for side, scope in SCOPES.items()
        }
        case = {"program": name, "part": "trace and lower"}
        # A lowering takes a thousand times as long as a run.
        few = max(1, rounds // 10)
        yield measure_case(case, lowerings, compiled["ordered"], rounds=few)


def _lower(scope: Scope, step: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Traces and lowers a program inside a scope."""
    jax.clear_caches()
    with scope():
        return jax.jit(step).lower(*args)
