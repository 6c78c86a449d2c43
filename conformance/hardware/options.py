"""The options of a run in rounds, and their defaults."""

from __future__ import annotations

import argparse
import dataclasses
import os

#: The exit status of a run in which some tests were not run, and no test failed.
UNFINISHED = 6
#: The defaults on a GPU: the rounds, the runs whose bits are compared, and the minutes.
_ROUNDS, _REPEATS, _MINUTES = 4, 100, 8.0
#: The greatest number of processes that share a device by default.
_MAX_PROCESSES = 8


@dataclasses.dataclass(frozen=True)
class RoundOptions:
    """The options of a run in rounds.

    Attributes:
        processes: The number of processes at a time.
        rounds: The number of rounds.
        minutes: The time limit; None for no limit.
        repeats: The runs whose bits the first round compares; None leaves it to the adapter.
    """

    processes: int
    rounds: int
    minutes: float | None
    repeats: int | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a run in rounds to the command ``run``."""
    group = parser.add_argument_group(
        "in rounds",
        "On a GPU, and if one of these is given, processes share the tests. The same command "
        "continues a report that was begun. --processes 0 runs all tests in this process, once.",
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

    return count  # type: ignore[return-value]  # argparse calls it like a type


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return number


def round_options(options: argparse.Namespace, device: str) -> RoundOptions | None:
    """Returns the options of a run in rounds, or None if the tests run in this process.

    Args:
        options: The options of the command line.
        device: The device of the rows that the suite tests.
    """
    given = (options.processes, options.rounds, options.minutes)
    on_gpu = device != "cpu"
    if options.processes == 0 or (not on_gpu and given == (None, None, None)):
        return None
    return RoundOptions(
        processes=options.processes or max(1, min(_cores() // 2, _MAX_PROCESSES)),
        rounds=options.rounds or (_ROUNDS if on_gpu else 1),
        minutes=options.minutes or (_MINUTES if on_gpu else None),
        repeats=options.repeats or (_REPEATS if on_gpu else None),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
