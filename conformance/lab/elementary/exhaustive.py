"""Tries every float32, float16 and bfloat16: ``python -m conformance.lab.elementary.exhaustive``.

This is the proof that the functions of one argument are correctly rounded. RLIBM and CORE-MATH
prove theirs in the same way. Each result is compared with the value of ``reference``. The command
fails if one is wrong.

The functions of two arguments have too many pairs of arguments to try each:

- How ``integer_pow`` rounds depends on the significand and the exponent alone, since a power of two
  only scales it. So 2**23 arguments for each exponent are a proof, for ``EXPONENTS``.
- ``pow`` is tried with every significand for each of ``_POWERS``, such as 1.5, with even and odd
  exponents of the base, and with random pairs.
- ``atan2`` and ``div`` are tried with random pairs.

Random pairs come from a counter, so that a run can be repeated. Of 2**28 pairs, the hardest value
is within about 2**-53 of the middle of two floats.

A compiler may contract a product and a sum into one operation with one rounding (fused
multiply-add). Most functions seal their products against that. For ``UNSEALED`` functions, a second
proof shows that contraction changes no result: every float32 is computed three times, with the
polynomial as it is, multiplied by 1 + 2**-48, and multiplied by 1 - 2**-48. These factors change
the polynomial more than all of its roundings together can, and the result is monotonic in the
polynomial, so equal results at both ends prove equal results between them.

Each process has a core, and takes a part of the arguments. Odd and even functions need a reference
for positive arguments alone; the results for negative arguments are compared with these. A line of
output, of ``--stride 512``:

    tanh: 8650752 arguments, 2 decided by mpmath, 0 not correctly rounded; 23 s
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import ml_dtypes
import numpy as np

import impl
from conformance.lab.elementary import findings, reference
from conformance.lab.elementary.findings import Outcome
from conformance.reporting import report
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS, _words, exponentials

#: The number of arguments that are computed at a time. They fit into the cache of a core.
BLOCK = 1 << 16
#: The functions whose products are not sealed.
UNSEALED = frozenset({"exp", "log", "log1p", "logistic"})
#: The relative change of a polynomial that may change no result.
_CHANGE = 2.0**-48
_FLOAT32 = np.dtype(np.float32)
_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_DTYPES = tuple(dtype.name for dtype in (_FLOAT32, *_SHORT))
#: The functions of one argument. ``log2`` is a quotient of two logarithms. The trials of ``log``
#: and the proof of ``div`` cover it, so one block in ``_OF_LOG2`` is tried.
OF_ONE = (*reference.REFERENCES, "log2")
_OF_LOG2 = 16
#: The exponents of ``integer_pow``.
EXPONENTS = (*range(-64, 0), *range(1, 65))
#: The exponents of ``pow`` that are tried with every significand.
_POWERS = (-2.5, -2.0, -1.5, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 2.0, 2.5, 3.0)
#: The blocks of random pairs of float32. Shorter floats have a few.
_RANDOM_BLOCKS = 1 << 12


class Checker:
    """The programs of a function.

    Args:
        name: The name of its primitive.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._plain = _program(name)
        self._changed = [
            (_program(name), factor) for factor in (1 + _CHANGE, 1 - _CHANGE) if name in UNSEALED
        ]

    def check(self, x: np.ndarray) -> Outcome:
        """Compares the results for the arguments ``x``."""
        result = self._run(self._plain, x)
        if self.name == "log2":
            return reference.compared(result, reference.correct(self.name, x), x)
        outcome = reference.judged(self.name, result, x)
        for program, factor in self._changed:
            with _polynomials_times(factor):
                differs = reference.bits(self._run(program, x)) != reference.bits(result)
            outcome.contracted += [float(v) for v in x[differs & ~np.isnan(result)]]
        if symmetry := reference.REFERENCES[self.name].symmetry:
            mirrored = self._run(self._plain, -x)
            outcome.add(reference.compared(mirrored, result if symmetry > 0 else -result, -x))
        return outcome

    def _run(self, program: Any, x: np.ndarray) -> np.ndarray:
        with arithmetic.wide():
            return np.asarray(program(x))


def _program(name: str, **parameters: int) -> Any:
    """Returns the program of a function, which shares no trace with another program."""
    return jax.jit(lambda *operands: FUNCTIONS[name](*operands, **parameters))


@contextlib.contextmanager
def _polynomials_times(factor: float) -> Iterator[None]:
    """A scope in which polynomials are multiplied by a factor when they are traced."""

    def changed(coefficients: Sequence[float], x: jax.Array, **options: Any) -> jax.Array:
        value = _words.polynomial(coefficients, x, **options)
        return _words.times(value, factor)

    with mock.patch.object(exponentials, "polynomial", changed):
        yield


def check_part(name: str, part: int, parts: int, stride: int) -> list[Outcome]:
    """Checks a part of the arguments, in blocks; every ``stride``-th block.

    Args:
        name: The name of the primitive.
        part: The number of the part.
        parts: The number of parts.
        stride: 1 for all blocks.

    Returns:
        The findings of float32, and of the short dtypes.
    """
    outcomes = [Outcome() for _ in _DTYPES]
    if name not in OF_ONE:
        for outcome, dtype in zip(outcomes, (_FLOAT32, *_SHORT), strict=True):
            outcome.add(_check_pairs(name, part, parts, stride, dtype))
        return outcomes
    # The results for negative arguments are compared with these for positive ones.
    halves = 2 if name != "log2" and reference.REFERENCES[name].symmetry else 1
    checker = Checker(name)
    stride *= _OF_LOG2 if name == "log2" else 1
    for block in range(part * stride, (1 << 32) // BLOCK // halves, parts * stride):
        raw = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint32)
        outcomes[0].add(checker.check(raw.view(_FLOAT32)))
    if part == 0:
        for outcome, dtype in zip(outcomes[1:], _SHORT, strict=True):
            raw = np.arange((1 << 16) // halves, dtype=np.uint16)
            outcome.add(Checker(name).check(raw.view(dtype)))
    return outcomes


def _check_pairs(name: str, part: int, parts: int, stride: int, dtype: np.dtype) -> Outcome:
    """Checks every ``parts * stride``-th block of a function of two arguments."""
    outcome = Outcome()
    programs: dict[int | None, Any] = {}
    for number, (operands, y) in enumerate(_blocks(name, dtype)):
        if number % (parts * stride) != part * stride:
            continue
        if y not in programs:
            programs[y] = _program(name, **({} if y is None else {"y": y}))
        x = operands()
        with arithmetic.wide():
            result = np.asarray(programs[y](*x))
        if y is not None:
            x = (*x, np.full(x[0].shape, float(y)))
        outcome.add(reference.judged(name, result, *x))
    return outcome


def _blocks(name: str, dtype: np.dtype) -> Iterator[tuple[Any, int | None]]:
    """Yields functions that return the operands of a block, and the exponent of ``integer_pow``."""
    if name == "integer_pow":
        for y in EXPONENTS:
            for operand in _significands(dtype, binades=1):
                yield (lambda operand=operand: (operand(),)), y
        return
    if name == "pow":
        for power in _POWERS:
            for operand in _significands(dtype, binades=2):
                yield (lambda x=operand, y=power: (x(), np.full_like(x(), y))), None
    for number in range(_RANDOM_BLOCKS if dtype == _FLOAT32 else _RANDOM_BLOCKS // 64):
        yield (lambda number=number: _random_pairs(name, number, dtype)), None


def _significands(dtype: np.dtype, binades: int) -> Iterator[Any]:
    """Yields functions that return blocks of floats from 1 on; of 16 bits, of all floats."""
    if dtype != _FLOAT32:
        yield lambda: np.arange(1 << 16, dtype=np.uint16).view(dtype)
        return
    first = int(np.array(1, np.float32).view(np.uint32))
    for start in range(first, first + (binades << 23), BLOCK):
        yield lambda start=start: np.arange(start, start + BLOCK, dtype=np.uint32).view(dtype)


def _random_pairs(name: str, number: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs whose results are seldom zero or infinite."""
    rng = np.random.default_rng((number, len(name)))
    a, b = rng.uniform(1, 2, (2, BLOCK)) * 2.0 ** rng.integers(-12, 12, (2, BLOCK))
    if name == "pow":
        # Half of the bases are close to 1, so that their exponents are great.
        near = 1 + rng.uniform(-1, 1, BLOCK) * 2.0 ** -rng.integers(1, 20, BLOCK)
        a = np.where(rng.random(BLOCK) < 0.5, near, a).astype(dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            b = rng.uniform(-86, 86, BLOCK) / np.log(a)
        b = np.where(np.isfinite(b), b, 1)
    else:
        a, b = (side * rng.choice((-1.0, 1.0), BLOCK) for side in (a, b))
    return a.astype(dtype), b.astype(dtype)


def _pin(cores: Any) -> None:
    """Gives this process a core of its own, so that XLA starts one thread."""
    os.sched_setaffinity(0, {cores.get()})
    jax.config.update("jax_platforms", "cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks functions, prints a line for each, and returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="the primitives (default: all)")
    parser.add_argument("--stride", type=int, default=1, help="check one block in N", metavar="N")
    parser.add_argument("--jobs", type=int, help="the number of processes (default: one a core)")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")
    options = parser.parse_args(arguments)
    if options.report and options.stride > 1:
        parser.error(f"--report keeps whole runs, but --stride is {options.stride}; leave one out")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    cores = sorted(os.sched_getaffinity(0))[: options.jobs]
    for core in cores:
        queue.put(core)
    faults = 0
    with ProcessPoolExecutor(len(cores), context, _pin, (queue,)) as pool:
        for name in options.names or FUNCTIONS:
            start, parts = time.perf_counter(), len(cores)
            tasks = [
                pool.submit(check_part, name, part, parts, options.stride) for part in range(parts)
            ]
            outcomes = {dtype: Outcome() for dtype in _DTYPES}
            for task in tasks:
                for outcome, more in zip(outcomes.values(), task.result(), strict=True):
                    outcome.add(more)
            seconds = time.perf_counter() - start
            faults += not all(outcome.is_faultless() for outcome in outcomes.values())
            print(_line(name, outcomes.values(), seconds), flush=True)
            if options.report:
                records = [
                    findings.record(name, _kind(name), dtype, outcome, seconds)
                    for dtype, outcome in outcomes.items()
                ]
                report.update(options.report, _environment(), records)
    return int(faults > 0)


def _kind(name: str) -> str:
    if name == "log2":
        return "some"
    if name in OF_ONE:
        return "every"
    return "significands" if name == "integer_pow" else "random"


def _environment() -> dict[str, str]:
    versions = {name: report.version(name) for name in ("scipy", "mpmath")}
    hardware = {"platform": "cpu", "device": "cpu"}
    return {**report.environment(hardware), "namespace": impl.__name__, **versions}


def _line(name: str, outcomes: Iterable[Outcome], seconds: float) -> str:
    total = Outcome()
    for outcome in outcomes:
        total.add(outcome)
    tried = f"{total.tried} arguments, {total.by_mpmath} decided by mpmath"
    wrong = f"{len(total.wrong)} not correctly rounded"
    if total.wrong:
        some = ", ".join(f"{_hex(a)} to {b.hex()}" for a, b in total.wrong[:16])
        wrong += f" (at most {total.error:.9f} ulp: {some})"
    line = f"{name}: {tried}, {wrong}"
    if name in UNSEALED:
        some = ", ".join(a.hex() for a in total.contracted[:8])
        line += f", {len(total.contracted)} depend on contraction {some}".rstrip()
    return f"{line}; {seconds:.0f} s"


def _hex(arguments: Iterable[float]) -> str:
    return " and ".join(argument.hex() for argument in arguments)


if __name__ == "__main__":
    sys.exit(main())
