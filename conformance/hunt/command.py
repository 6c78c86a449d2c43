"""The command ``python -m conformance hunt``.

An input, and the output for a planted fault::

    python -m conformance hunt --only add_zeros --plant sums_not_sealed.py --most 1 --out found
    program 4: bits, results 1 have other bits; call nested, worker 1, mesh 4 by shard_map
      found: results 0 have other bits
      suspected: add; the file: found/bits_4.py
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from conformance.hunt import checks, files, grammar, memory, settings, shrink
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew, default_kinds
from conformance.hunt.memory import Memory
from conformance.hunt.pool import Dice
from conformance.hunt.program import Program
from conformance.hunt.tokens import TOKENS

#: The programs of which one has the audit, its growth, or the mode off, checked, too. The audit
#: shows a rule that is XLA's own, although both have the same bits on a CPU. The first program
#: with a token has it in any case.
_EXTRA = {"audit": grammar.FOR_ONE, "growth": 9, "off": 12}
#: The runs in which a finding must show once more.
_REPEATS = 3
#: The seconds between two lines of progress.
_PROGRESS = 30.0
#: The programs that are checked at the same time, so that no worker waits for a slower one.
_LANES = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add("--minutes", type=float, metavar="M", default=10.0, help="default: 10")
    add("--seed", type=int, metavar="N", default=0, help="default: 0")
    add(
        "--only", metavar="TEXT", default="", help="programs with a token or primitive of this name"
    )
    other = "an interpreter with another release of JAX"
    add("--python", action="append", metavar="OTHER", default=[], help=other)
    add("--out", type=Path, metavar="FOLDER", default="hunt", help="the files of findings")
    add("--plant", type=Path, metavar="FILE.py", help="a planted fault that each worker runs")
    add("--report", type=Path, metavar="FILE.json", help="a report to which the counts are added")
    add("--shrink", type=float, metavar="S", default=120.0, help="seconds a finding; default: 120")
    add("--most", type=int, metavar="N", default=20, help="findings; default: 20")


def run(options: argparse.Namespace) -> int:
    """Hunts, and returns the exit status: 0 without a finding, 1 with one, 2 if it cannot run."""
    with contextlib.ExitStack() as stack:
        try:
            _check_options(options)
            crew = stack.enter_context(Crew(default_kinds(options.python, options.plant)))
            crew.start()
        except ValueError as error:
            print(f"python -m conformance hunt: {error}", file=sys.stderr)
            return 2
        hunt = _Hunt(crew, options)
        try:
            hunt.go()
        except KeyboardInterrupt:
            print("stopped")
        return hunt.end()


def _check_options(options: argparse.Namespace) -> None:
    """Raises a ``ValueError`` if a hunt cannot run with some options."""
    if options.minutes <= 0:
        raise ValueError(f"--minutes {options.minutes}: it is a number above 0")
    if options.plant is not None and not options.plant.is_file():
        raise ValueError(f"--plant {options.plant}: there is no such file")
    grammar.draw(options.seed, 0, Counter(), options.only)
    if options.report is not None and options.report.is_file():
        memory.read(options.report)


#: A finding or None, the answer for ``BASE``, and the settings.
_Checked: TypeAlias = tuple[Finding | None, dict[str, Any], list[settings.Setting]]


class _Hunt:
    """A hunt: its counts, its findings and its clock."""

    def __init__(self, crew: Crew, options: argparse.Namespace) -> None:
        self._crew = crew
        self._options = options
        self._start = self._said = time.monotonic()
        self._known = memory.known_faults()
        self._met: Counter[str] = Counter()
        self._marks: set[tuple[str, ...]] = set()
        self._audited: set[str] = set()
        self.memory = Memory()

    def go(self) -> None:
        """Draws and checks programs until the time is over."""
        counts: grammar.Counts = Counter()
        waiting: deque[tuple[int, Future[_Checked]]] = deque()
        with ThreadPoolExecutor(_LANES) as pool:
            for index in itertools.count():
                if self._is_over():
                    break
                program = grammar.draw(self._options.seed, index, counts, self._options.only)
                extra = [name for name, count in _EXTRA.items() if index % count == 0]
                tokens = program.tokens
                extra += ["audit"] if tokens - self._audited else []
                # A sum over devices is in few settings.
                self._audited |= {x for x in tokens if "devices(" not in TOKENS[x].expression}
                waiting.append((index, pool.submit(self._check, index, program, extra)))
                if len(waiting) == _LANES:
                    self._judge(*waiting.popleft())
            while waiting and len(self.memory.faults) < self._options.most:
                self._judge(*waiting.popleft())

    def _is_over(self) -> bool:
        is_late = self._elapsed() >= float(self._options.minutes) * 60
        return is_late or len(self.memory.faults) >= int(self._options.most)

    def _check(self, index: int, program: Program, extra: list[str]) -> _Checked:
        """Checks a program in settings that its number decides."""
        dice = Dice(f"settings {index} of {self._options.seed}")
        chosen = settings.draw(dice, program, len(self._crew.kinds))
        return (*checks.check(self._crew, program, chosen, extra), chosen)

    def _judge(self, index: int, result: Future[_Checked]) -> None:
        """Counts a program that was checked, and takes its finding."""
        finding, base, chosen = result.result()
        self.memory.add(base.get("equations", ()), [settings.BASE, *chosen])
        if finding is not None:
            self._take(index, finding)
        if time.monotonic() - self._said > _PROGRESS:
            self._said = time.monotonic()
            print(self._progress(), flush=True)

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
        # Each trial of a program that does not end takes as long as the limit.
        if finding.kind != "hang":
            finding = shrink.shrink(self._crew, finding, self._options.shrink)
        for each in self._known:
            if each.matches(finding):
                self._met[each.name] += 1
                print(f"  known: {each.name}, {each.link}", flush=True)
                return
        tokens = sorted({each.token for each in finding.program.equations})
        mark = (finding.kind, finding.mark, *tokens)
        if mark in self._marks:
            print("  it is like an earlier one", flush=True)
            return
        self._marks.add(mark)
        path = self._write(index, finding)
        self.memory.faults.append(f"{finding.kind}: {', '.join(tokens)}; {finding.setting}")
        names = ", ".join(finding.primitives) or "no single primitive"
        print(f"  found: {finding.detail[:200]}", flush=True)
        print(f"  suspected: {names}; the file: {path}", flush=True)

    def _write(self, index: int, finding: Finding, prefix: str = "") -> Path:
        """Writes the file of a finding."""
        path: Path = self._options.out / f"{prefix}{finding.kind}_{index}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.text(finding, self._crew.kinds), encoding="utf-8")
        return path

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

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
