"""The workers of a hunt, and what a program gives in each of its settings."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from conformance.hunt import oracles, source
from conformance.hunt.program import Array, Program, packed, unpacked
from conformance.hunt.settings import BASE, Setting
from conformance.hunt.workers import ROOT, TIMEOUT, Kind, Worker, cheapest

#: How much longer the other workers have for a program than the first one.
_OTHERS = 3


class Crew:
    """The workers.

    Args:
        kinds: The options of each worker; the first one runs ``BASE``.
        timeout: The seconds after which a program counts as one that does not end.

    Attributes:
        kinds: The options of each worker.
        runs: The number of answers so far.
        seconds: The seconds of CPU that the workers took for them.
    """

    def __init__(self, kinds: Sequence[Kind], timeout: float = TIMEOUT) -> None:
        self.kinds = tuple(kinds)
        self.runs = 0
        self.seconds = 0.0
        self._timeout = timeout
        self._count = threading.Lock()
        self._workers = [Worker(kind) for kind in kinds]
        # Plain JAX, in processes that never import this project. They start when they are needed.
        plain = [dataclasses.replace(each, plain=True, plant=None, root=ROOT) for each in kinds]
        self._plain = [Worker(each) for each in plain]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._workers, *self._plain):
            worker.close()

    def ready(self, number: int) -> dict[str, Any]:
        """Returns the answer of a worker to a request without a program."""
        request = {"source": "", "asks": [], "mode": "portable", "wide": False}
        return self._workers[number].ask(request, self._timeout)

    def run(
        self,
        program: Program,
        setting: Setting,
        asks: Sequence[str] = ("digests",),
        *,
        plain: bool = False,
        off: bool = False,
        all_variables: bool = False,
        exempt: bool = False,
        **further: object,
    ) -> dict[str, Any]:
        """Returns the answer of the worker of a setting.

        Args:
            program: The program.
            setting: The setting.
            asks: The parts of the answer:
                ``digests``, ``values`` of all variables or ``results``, ``equations``, ``audit``,
                ``text``, ``sums`` over devices, ``growth``; ``wide`` for arguments of float64.
            plain: Whether a process without this project answers.
            off: Whether the mode is off.
            all_variables: Whether the program returns each of its variables.
            exempt: Whether sums over devices are in a scope without a guarantee.
            further: Further entries of the request: ``scope`` for ``text``, and ``depths`` and
                ``gradient`` for ``growth``.
        """
        worker = (self._plain if plain else self._workers)[setting.worker]
        request = {
            "source": source.whole(program, setting, all_variables=all_variables, exempt=exempt),
            "asks": list(asks),
            "mode": "off" if off else "portable",
            "wide": program.is_wide or "wide" in asks,
            **further,
        }
        return self._asked(worker, request)

    def _asked(self, worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
        # A program that does not end with the first worker's options is tried with others.
        is_first = worker is self._workers[0]
        answer = worker.ask(request, self._timeout / (_OTHERS if is_first else 1))
        with self._count:
            self.runs += 1
            self.seconds += answer.get("seconds", 0.0)
        return answer

    def run_all(
        self, program: Program, settings: Sequence[Setting], first: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Returns the answer for ``BASE``, of which more may be asked, and for each setting.

        The workers run at the same time.
        """
        jobs: dict[int, list[tuple[int, Setting, Sequence[str]]]] = {}
        # Where a program has no derivative, one run of all variables serves two oracles.
        shows_all = "values" in first
        everything = [(BASE, first), *((setting, ("digests",)) for setting in settings)]
        for number, (setting, asks) in enumerate(everything):
            jobs.setdefault(setting.worker, []).append((number, setting, asks))
        answers: list[dict[str, Any]] = [{} for _ in everything]

        def work(queue: list[tuple[int, Setting, Sequence[str]]]) -> None:
            for number, setting, asks in queue:
                shows = shows_all and number == 0
                answers[number] = self.run(program, setting, asks, all_variables=shows)

        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            list(pool.map(work, jobs.values()))
        if shows_all and "digests" in answers[0]:
            own = answers[0]["digests"]
            answers[0]["digests"] = [own[v - program.primals] for v in program.outputs]
        return answers

    def wrong(self, program: Program, answer: dict[str, Any] | None = None) -> list[oracles.Wrong]:
        """Returns the wrong elements of a program without derivative.

        Args:
            program: The program.
            answer: The values of all variables, if a worker has given them.
        """
        if answer is None:
            answer = self.run(program, BASE, ("digests", "values"), all_variables=True)
        if "values" not in answer:
            return []
        own = [each.values() for each in program.inputs[: program.primals]]
        variables = [*own, *map(unpacked, answer["values"])]
        text, results = source.references(program, oracles.REFERENCES)
        references: dict[tuple[int, str], Array] = {}
        if results:
            request = {
                "source": text,
                "asks": ["references"],
                "mode": "off",
                # Equations that are compared bit by bit have JAX's own widths.
                "wide": True,
                "variables": [packed(each) for each in variables],
            }
            answer = self._asked(self._workers[0], request)
            if "values" not in answer:
                return []
            references = dict(zip(results, map(unpacked, answer["values"]), strict=True))
        return oracles.wrong(program, variables, references)


def default_kinds(
    python: Sequence[str], plant: Path | None = None, root: Path = ROOT
) -> tuple[Kind, ...]:
    """Returns the workers of a hunt: two of this interpreter, and one of each other interpreter.

    Args:
        python: The other interpreters.
        plant: A file that each worker runs.
        root: The folder that the workers import this project from.
    """
    first = Kind(flags=cheapest(), plant=plant, root=root)
    own = (first, Kind(flags="", threads=1, plant=plant, root=root))
    return (*own, *(Kind(python=each, plant=plant, root=root) for each in python))
