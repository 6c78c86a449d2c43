"""The cost of a case: with the mode on, with the mode off, and as plain JAX."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import impl
from conformance.lab.compiled import compiler, launches
from conformance.lab.compiled.costs.case import CostCase
from conformance.lab.compiled.launches import Account

#: The profile with a deterministic path for every op.
PROFILE = "complete"


@dataclasses.dataclass(frozen=True)
class CaseCost:
    """The costs of a case.

    Attributes:
        case: The name of the case.
        target: The name of the GPU.
        sides: The launches of the program of each side: ``on``, ``off`` and ``plain``. ``unlikely``
            is the program with the mode on that takes the unlikely branch, if the case has one.
        errors: Why a side did not compile, or cannot be counted.
        seconds: The seconds that it took.
    """

    case: str
    target: str
    sides: Mapping[str, Account]
    errors: Mapping[str, str]
    seconds: float

    @property
    def floor(self) -> int:
        """The bytes that each side has to move."""
        return min(side.floor for side in self.sides.values())


def measure(case: CostCase, target: str) -> CaseCost:
    """Compiles the sides of a case for a GPU, and counts them. Prepare the process first."""
    start = time.perf_counter()
    sides: dict[str, Account] = {}
    errors: dict[str, str] = {}
    for side, function in _sides(case):
        try:
            with impl.deterministic(side == "on", profile=PROFILE if side == "on" else None):
                code = compiler.compile_call(function, case.inputs, target, compiler.NO_AUTOTUNING)
            sides[side] = launches.account_of(code.hlo, case.unlikely)
            if side == "on" and case.unlikely is not None:
                sides["unlikely"] = launches.account_of(code.hlo)
        except Exception as error:  # noqa: BLE001  # a compiler's error, whatever it is, is reported
            errors[side] = f"{type(error).__name__}: {error}"
    return CaseCost(case.name, target, sides, errors, time.perf_counter() - start)


def _sides(case: CostCase) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "on", case.call
    if case.plain is not None:
        yield "off", case.call
        yield "plain", case.plain
