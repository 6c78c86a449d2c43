"""The command ``python -m conformance hunt``.

An input, and the output for a planted fault::

    python -m conformance hunt --only add_zeros --plant sums_not_sealed.py --most 1 --out found
    program 4: bits, results 1 have other bits; call nested, worker 1, mesh 4 by shard_map
      found: results 0 have other bits
      suspected: add; the file: found/bits_4.py
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, TypeAlias

from conformance.hunt import checks, files, grammar, known, memory, mutated, settings, shrink
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew, default_kinds
from conformance.hunt.dice import Dice
from conformance.hunt.memory import Memory
from conformance.hunt.program import Program
from conformance.hunt.workers import ROOT

#: The programs of which one has the audit, its growth, or the mode off, checked, too.
_AUDITS, _GROWTH, _OFF = 6, 9, 12
#: The stream of draws of settings begins here, apart from the streams of programs.
_SETTINGS = 2**32
#: The runs in which a finding must show once more.
_REPEATS = 3
#: The seconds between two lines of progress.
_PROGRESS = 30.0
#: The programs that are checked at the same time, so that no worker waits for a slower one.
_LANES = 3
#: The numbers that workers are drawn from; a crew has fewer.
_WORKERS = 12
#: The numbers of the second worker, if there are others.
_OF_SECOND = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--minutes", type=float, metavar="M", default=10.0, help="default: 10")
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="default: 0")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="programs with a token or primitive of this name"
    )
    parser.add_argument(
        "--python",
        action="append",
        metavar="OTHER",
        default=[],
        help="an interpreter with another release of JAX",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", default=Path("hunt"), help="the files of findings"
    )
    parser.add_argument(
        "--plant",
        type=Path,
        metavar="FILE.py",
        help="a file that each worker runs: a planted fault",
    )
    parser.add_argument(
        "--mutant",
        metavar="NAME",
        default="",
        help="a mutant of conformance/lab/mutants, which a copy for the workers gets",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="a report to which the counts are added"
    )
    parser.add_argument(
        "--shrink",
        type=float,
        metavar="S",
        default=120.0,
        help="seconds for a finding; default: 120",
    )
    parser.add_argument("--most", type=int, metavar="N", default=20, help="findings; default: 20")


def run(options: argparse.Namespace) -> int:
    """Hunts, and returns the exit status: 0 without a finding, 1 with one, 2 if it cannot run."""
    problem = _problem(options)
    if problem:
        print(f"python -m conformance hunt: {problem}", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(mutated.copy(options.mutant)) if options.mutant else ROOT
        kinds = default_kinds(options.python, options.plant, root)
        crew = stack.enter_context(Crew(kinds))
        for number in range(len(kinds)):
            answer = crew.ready(number)
            if "error" in answer:
                print(
                    f"python -m conformance hunt: the worker {kinds[number]} does not run:\n"
                    f"{answer['message']}",
                    file=sys.stderr,
                )
                return 2
        hunt = _Hunt(crew, options)
        try:
            hunt.go()
        except KeyboardInterrupt:
            print("stopped")
        return hunt.end()


def _problem(options: argparse.Namespace) -> str:
    if options.minutes <= 0:
        return f"--minutes {options.minutes}: it is a number above 0"
    if options.plant is not None and not options.plant.is_file():
        return f"--plant {options.plant}: there is no such file"
    try:
        if options.mutant:
            mutated.find(options.mutant)
        grammar.draw(options.seed, 0, Counter(), options.only)
        if options.report is not None and options.report.is_file():
            memory.read(options.report)
    except ValueError as error:
        return str(error)
    return ""


#: A finding or None, the answer for ``BASE``, and the settings.
_Checked: TypeAlias = tuple[Finding | None, dict[str, Any], list[settings.Setting]]
_Future: TypeAlias = concurrent.futures.Future[_Checked]


class _Hunt:
    """A hunt: its counts, its findings and its clock."""

    def __init__(self, crew: Crew, options: argparse.Namespace) -> None:
        self._crew = crew
        self._options = options
        self._start = self._said = time.monotonic()
        self._known = known.load()
        self._met: Counter[str] = Counter()
        self._marks: set[tuple[str, ...]] = set()
        self.memory = Memory()

    def go(self) -> None:
        """Draws and checks programs until the time is over."""
        counts: grammar.Counts = Counter()
        waiting: deque[tuple[int, _Future]] = deque()
        with concurrent.futures.ThreadPoolExecutor(_LANES) as pool:
            for index in itertools.count():
                if self._is_over():
                    break
                program = grammar.draw(self._options.seed, index, counts, self._options.only)
                waiting.append((index, pool.submit(self._check, index, program)))
                if len(waiting) == _LANES:
                    self._judge(*waiting.popleft())
            while waiting and len(self.memory.faults) < self._options.most:
                self._judge(*waiting.popleft())

    def _is_over(self) -> bool:
        is_late = self._elapsed() >= float(self._options.minutes) * 60
        return is_late or len(self.memory.faults) >= int(self._options.most)

    def _check(self, index: int, program: Program) -> _Checked:
        """Checks a program in settings that its number decides."""
        dice = Dice(self._options.seed, _SETTINGS + index)
        # The number of workers is the same for each crew, so that a seed gives the same settings.
        drawn = settings.draw(dice, program, _WORKERS)
        chosen = [_for_crew(each, len(self._crew.kinds)) for each in drawn]
        extra = [
            "value",
            *(["audit"] * (index % _AUDITS == 0)),
            *(["growth"] * (index % _GROWTH == 0)),
            *(["off"] * (index % _OFF == 0)),
        ]
        return (*checks.check(self._crew, program, chosen, extra), chosen)

    def _judge(self, index: int, result: _Future) -> None:
        """Counts a program that was checked, and takes its finding."""
        finding, base, chosen = result.result()
        self.memory.add(base.get("equations", ()), [settings.BASE, *chosen])
        if finding is not None:
            self._take(index, finding)
        self._say()

    def _take(self, index: int, finding: Finding) -> None:
        """Confirms a finding, shrinks it, recognises it, and writes its file."""
        print(
            f"program {index} after {self._elapsed():.0f} s, {self._crew.seconds:.0f} s of CPU: "
            f"{finding.kind}, {finding.detail[:200]}; {finding.setting}",
            flush=True,
        )
        repeats = 1 if finding.kind == "hang" else _REPEATS
        if all(checks.again(self._crew, finding) is None for _ in range(repeats)):
            path = self._write(index, finding, "not_again_")
            self.memory.numbers["not shown again"] += 1
            print(f"  not shown again in {repeats} runs, no finding; the file: {path}", flush=True)
            return
        small = finding
        # Each trial of a program that does not end takes as long as the limit.
        if finding.kind != "hang":
            small = shrink.shrink(self._crew, finding, self._options.shrink, _indented)
        for each in self._known:
            if each.matches(small):
                self._met[each.name] += 1
                print(f"  known: {each.name}, {each.link}", flush=True)
                return
        tokens = tuple(sorted({each.token for each in small.program.equations}))
        mark = (small.kind, small.mark, *tokens)
        if mark in self._marks:
            print("  it is like an earlier one", flush=True)
            return
        self._marks.add(mark)
        path = self._write(index, small)
        names = ", ".join(files.names_of_primitives(small)) or "no single primitive"
        self.memory.faults.append(f"{small.kind}: {', '.join(tokens)}; {small.setting}")
        print(f"  found: {small.detail[:200]}", flush=True)
        print(f"  suspected: {names}; the file: {path}", flush=True)

    def _write(self, index: int, finding: Finding, prefix: str = "") -> Path:
        """Writes the file of a finding, with its program next to it."""
        name = f"{prefix}{finding.kind}_{index}"
        path = files.write(self._options.out, name, finding, self._crew)
        program, setting = finding.program.to_json(), dataclasses.asdict(finding.setting)
        record = json.dumps({"program": program, "setting": setting})
        path.with_suffix(".json").write_text(record, encoding="utf-8")
        return path

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _say(self) -> None:
        if time.monotonic() - self._said > _PROGRESS:
            self._said = time.monotonic()
            print(self._progress(), flush=True)

    def _progress(self) -> str:
        programs, seconds = self.memory.numbers["programs"], self._elapsed()
        return (
            f"{seconds:.0f} s: {programs} programs, {self._crew.runs} runs, "
            f"{60 * programs / seconds:.0f} programs a minute, {self._crew.seconds:.0f} s of CPU, "
            f"{len(self.memory.faults)} findings"
        )

    def end(self) -> int:
        """Prints the counts, writes the report, and returns the exit status."""
        self.memory.numbers["runs"] = self._crew.runs
        self.memory.numbers["seconds"] = int(self._crew.seconds)
        print(self._progress())
        if not_again := self.memory.numbers["not shown again"]:
            print(f"not shown again: {not_again}")
        for name, count in self._met.items():
            print(f"known fault, {count} times: {name}")
        if self._options.report is not None:
            self.memory.write(self._options.report)
        return int(bool(self.memory.faults))


def _indented(text: str) -> None:
    print(f"  {text}", flush=True)


def _for_crew(setting: settings.Setting, count: int) -> settings.Setting:
    """Returns a setting whose worker exists: in half of the draws the first one, the cheapest.

    Workers of other releases get a third of the draws: few programs differ between releases.
    """
    others = setting.worker - _WORKERS // 2
    if others < 0 or count == 1:
        worker = 0
    elif others < _OF_SECOND or count == 2:
        worker = 1
    else:
        worker = 2 + others % (count - 2)
    return dataclasses.replace(setting, worker=worker)
