"""Programs of plain JAX: the cost of the mode when they run, and when they are traced and lowered.

The programs are small, so what the mode adds to each operation counts for more than in a training.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.mode_scopes import BASE as BASE
from conformance.benchmarks.mode_scopes import OURS as OURS
from conformance.benchmarks.mode_scopes import SCOPES, Scope
from conformance.benchmarks.sides import Side, run
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


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every program, on ``times`` batches of its arguments."""
    for program in setting.some(PROGRAMS, 4):
        step, args = program()
        if setting.times > 1:
            step = jax.vmap(step)
            args = jax.tree.map(lambda a: jnp.stack([a] * setting.times), args)
        compiled = {name: _lower(scope, step, args).compile() for name, scope in SCOPES.items()}
        name = program.__name__.replace("_", " ")
        runs = {side: run(compiled[side], *args) for side in SCOPES}
        yield Case({"program": name, "part": "run"}, runs, OURS)
        lowerings: dict[str, Side] = {
            side: functools.partial(_lower, scope, step, args) for side, scope in SCOPES.items()
        }
        yield Case({"program": name, "part": "trace and lower"}, lowerings, OURS, few=True)


def _lower(scope: Scope, step: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Traces and lowers a program inside a scope."""
    jax.clear_caches()
    with scope():
        return jax.jit(step).lower(*args)
