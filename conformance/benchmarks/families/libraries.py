"""Steps of programs with Flax, Equinox, Jraph and the like: run, and traced and lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.mode_scopes import BASE as BASE
from conformance.benchmarks.mode_scopes import OURS as OURS
from conformance.benchmarks.mode_scopes import SCOPES, Scope
from conformance.benchmarks.sides import Side, run
from conformance.lab import user_programs

TITLE = "Programs with Flax, Equinox, Jraph, NumPyro, BlackJAX and Optax, float32"
#: The programs, and the factor of the number of examples.
NAMES = user_programs.NAMES
SCALE = 8
REMARKS = (
    "`plain JAX`: the rules for JAX's primitives are turned off.",
    "On a CPU the steps of the three sides are one program: their ratios show the noise.",
    "Tracing and lowering takes hundreds of times the time of a step, and is run less often.",
)


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every program; ``setting.times`` multiplies the number of examples."""
    for name in setting.some(NAMES, 2):
        step, args = user_programs.build(name, SCALE * setting.times)
        compiled = {}
        for side, scope in SCOPES.items():
            with scope():
                compiled[side] = _lowered(step, args).compile()
        of_work: dict[str, dict[str, Side]] = {
            "step": {side: run(program, *args) for side, program in compiled.items()},
            "trace and lower": {
                side: _lowering(step, args, scope) for side, scope in SCOPES.items()
            },
        }
        for work, sides in of_work.items():
            case = {"program": name, "work": work}
            yield Case(case, sides, OURS, few=work != "step")


def _lowered(step: Callable[..., Any], args: tuple[Any, ...]) -> jax.stages.Lowered:
    """Returns the program of a step, traced anew."""

    def program(*args: Any) -> Any:
        return step(*args)

    return jax.jit(program).lower(*args)


def _lowering(
    step: Callable[..., Any],
    args: tuple[Any, ...],
    scope: Scope,
) -> Side:
    def lower() -> jax.stages.Lowered:
        with scope():
            return _lowered(step, args)

    return lower
