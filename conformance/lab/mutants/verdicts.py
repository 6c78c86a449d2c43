"""The verdict on each mutant: whether its command fails, and fails because of a test."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from typing import Literal, TypeAlias

from conformance.lab.mutants.copies import BASELINE_TIMEOUT, CheckoutCopies, CommandResult
from conformance.lab.mutants.mutant import Mutant

#: The seconds that a command may take with a fault: at least MIN_TIMEOUT, or TIMEOUT_FACTOR times
#: the seconds that it takes without.
MIN_TIMEOUT, TIMEOUT_FACTOR = 60.0, 10.0
#: A failed test in pytest's summary, or a warning of Sphinx. A test whose fixture failed is listed
#: as ERROR and does not match.
_FAILED = re.compile(r"^FAILED (?:\S*?::)?(.+?)(?: - .*)?$|: WARNING: (.*)$", re.MULTILINE)

Verdict: TypeAlias = Literal["killed", "survived", "broken"]


@dataclasses.dataclass(frozen=True)
class MutantResult:
    """The result of a mutant.

    Attributes:
        mutant: The mutant.
        verdict: ``killed`` if a test found it, ``survived`` if none did, ``broken`` if no test
            could run.
        seconds: The seconds that the command took.
        detail: The test that failed, or the reason for another verdict.
    """

    mutant: Mutant
    verdict: Verdict
    seconds: float
    detail: str


def run_baseline(
    copies: CheckoutCopies, mutants: Sequence[Mutant], print_line: Callable[[str], None]
) -> dict[str, float]:
    """Runs the commands of the mutants without a fault.

    Returns:
        The seconds that each command took that passed.
    """
    commands = dict.fromkeys(mutant.run for mutant in mutants)
    seconds: dict[str, float] = {}
    futures = {copies.submit(command, BASELINE_TIMEOUT): command for command in commands}
    for number, future in enumerate(as_completed(futures), 1):
        result, command = future.result(), futures[future]
        progress = f"[{number}/{len(commands)}]"
        if result.status == 0:
            seconds[command] = result.seconds
            print_line(f"{progress} passed   {result.seconds:5.1f} s  {command}")
        else:
            print_line(
                f"{progress} failed   {result.seconds:5.1f} s  {command}: {_ending(result)}\n"
                f"{result.tail()}"
            )
    return seconds


def run_mutants(
    copies: CheckoutCopies, mutants: Sequence[Mutant], baseline: Mapping[str, float]
) -> Iterator[MutantResult]:
    """Runs the command of each mutant with its fault, and yields each result when it is known.

    Args:
        copies: The copies of the checkout.
        mutants: The mutants.
        baseline: The seconds of each command without a fault.
    """
    futures = {}
    for mutant in mutants:
        timeout = max(MIN_TIMEOUT, TIMEOUT_FACTOR * baseline[mutant.run])
        futures[copies.submit(mutant.run, timeout, mutant)] = mutant
    for future in as_completed(futures):
        yield _judge(futures[future], future.result())


def _judge(mutant: Mutant, result: CommandResult) -> MutantResult:
    if result.status is None or result.status < 0:
        # XLA aborts where devices wait for one another.
        detail = "it hangs" if result.status is None else "it ends by a signal"
        return MutantResult(mutant, "killed", result.seconds, detail)
    if result.status == 0:
        return MutantResult(mutant, "survived", result.seconds, mutant.run)
    test = _failed_test(result.output)
    if result.status == 1 and test:
        return MutantResult(mutant, "killed", result.seconds, test)
    detail = f"{_ending(result)}: {mutant.run}\n{result.tail()}"
    return MutantResult(mutant, "broken", result.seconds, detail)


def _failed_test(output: str) -> str:
    """Returns the test that failed, or the warning of Sphinx; empty if there is neither."""
    match = _FAILED.search(output)
    return (match[1] or match[2]) if match else ""


def _ending(result: CommandResult) -> str:
    if result.status is None:
        return "it ran past its limit"
    return f"exit status {result.status}"
