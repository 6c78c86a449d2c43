"""The options of a run in rounds, and what holds where they are not given."""

from __future__ import annotations

import argparse
import dataclasses
import os

#: The exit status where some tests were not run, and none of those that were failed.
UNFINISHED = 6
#: Where nobody says otherwise, on a GPU: rounds, runs whose bits are compared, minutes.
_ROUNDS, _REPEATS, _MINUTES = 4, 100, 8.0
#: Processes that share a GPU at most, where nobody says otherwise.
_MOST = 8


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a run is made.

    Attributes:
        processes: How many run at a time.
        rounds: How many rounds there are.
        minutes: How long it may take; None for as long as it does.
        repeats: How often bits are compared in the first round; None leaves it to the adapter.
    """

    processes: int
    rounds: int
    minutes: float | None
    repeats: int | None


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a run in rounds to those of ``run``."""
    group = parser.add_argument_group(
        "in rounds",
        "On a GPU, and wherever one of these is given, processes share the tests; a report that "
        "was begun is gone on with. Of pytest's plugins only those of -p are loaded. --processes 0 "
        "runs all in this process, once.",
    )
    group.add_argument("--processes", type=_count(0), metavar="N", help="how many at a time")
    group.add_argument(
        "--rounds", type=_count(1), metavar="N", help=f"default: {_ROUNDS} on a GPU, or else 1"
    )
    group.add_argument(
        "--minutes",
        type=_positive,
        metavar="M",
        help=f"stop after so long, with status {UNFINISHED}; default: {_MINUTES:g} on a GPU",
    )


def _count(least: int) -> type[int]:
    def count(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return count  # type: ignore[return-value]  # it is called as a type is


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return number


def asked(options: argparse.Namespace, device: str) -> Asked | None:
    """How to run in rounds; None where the tests are to run in this process.

    Args:
        options: Of the command line.
        device: What the tests are about.
    """
    given = (options.processes, options.rounds, options.minutes)
    on_gpu = device != "cpu"
    if options.processes == 0 or (not on_gpu and given == (None, None, None)):
        return None
    return Asked(
        processes=options.processes or max(1, min(_cores() // 2, _MOST)),
        rounds=options.rounds or (_ROUNDS if on_gpu else 1),
        minutes=options.minutes or (_MINUTES if on_gpu else None),
        repeats=options.repeats or (_REPEATS if on_gpu else None),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
