"""Steps of programs with Flax, Equinox, Jraph and the like: run, and traced and lowered."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

import impl
from conformance import programs
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Scope, Side, run

TITLE = "Programs with Flax, Equinox, Jraph, NumPyro, BlackJAX and Optax, float32"
BASE = "plain JAX"
OURS = "ordered"
#: The programs, and the factor of the number of examples.
NAMES = programs.NAMES
SCALE = 8
REMARKS = (
    "`plain JAX`: the rules for JAX's primitives are turned off.",
    "On a CPU the steps of the three sides are one program: their ratios show the noise.",
    "Tracing and lowering takes hundreds of times the time of a step, and is run less often.",
)


@contextlib.contextmanager
def _without_rules() -> Iterator[None]:
    impl.programs.disable()
    try:
        yield
    finally:
        impl.programs.enable()


#: The scope that each side is compiled in.
SCOPES: Mapping[str, Scope] = {
    BASE: _without_rules,
    "mode off": functools.partial(impl.deterministic, False),
    OURS: impl.deterministic,
}


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every program; ``setting.times`` multiplies the number of examples."""
    for name in setting.some(NAMES, 2):
        step, args = programs.build(name, SCALE * setting.times)
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
