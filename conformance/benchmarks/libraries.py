"""Steps of programs with Flax, Equinox, Jraph and the like: run, and traced and lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax

from conformance import programs
from conformance.benchmarks.mode_scopes import BASE as BASE
from conformance.benchmarks.mode_scopes import SCOPES, Scope
from conformance.benchmarks.timing import Measurement, Side, measure_case, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "Programs with Flax, Equinox, Jraph, NumPyro, BlackJAX and Optax, float32"
#: The programs, and the factor of the number of examples.
NAMES = programs.NAMES
SCALE = 8
REMARKS = (
    "`plain JAX`: the rules for JAX's primitives are turned off.",
    "On a CPU the steps of the three sides are one program: their ratios show the noise.",
    "Tracing and lowering: medians of a tenth of the rounds.",
)


def measure(*, times: int, rounds: int, torch: TorchPeer | None) -> Iterator[Measurement]:
    """Measures every program, with ``times`` as many examples."""
    del torch  # It has no such programs.
    for name in NAMES:
        step, args = programs.build(name, SCALE * times)
        compiled = {}
        for side, scope in SCOPES.items():
            with scope():
                compiled[side] = _lowered(step, args).compile()
        of_work = {
            "step": {side: run(program, *args) for side, program in compiled.items()},
            "trace and lower": {
                side: _lowering(step, args, scope) for side, scope in SCOPES.items()
            },
        }
        for work, sides in of_work.items():
            case = {"program": name, "work": work}
            # A program is lowered in hundreds of times the time of a step.
            few = rounds if work == "step" else max(2, rounds // 10)
            yield measure_case(case, sides, compiled["ordered"], rounds=few)


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
