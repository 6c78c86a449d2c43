"""Tries every float32, float16 and bfloat16: ``python -m conformance.lab.elementary.exhaustive``.

This is the proof that the functions of one argument are correctly rounded. RLIBM and CORE-MATH
prove theirs in the same way. Each result is compared with the value of ``reference``.

A compiler may contract a product and a sum into one operation with one rounding (fused
multiply-add). Most functions seal their products against that. For ``UNSEALED`` functions, a second
proof shows that contraction changes no result: every float32 is computed three times, with the
polynomial as it is, multiplied by 1 + 2**-48, and multiplied by 1 - 2**-48. These factors change
the polynomial more than all of its roundings together can, and the result is monotonic in the
polynomial, so equal results at both ends prove equal results between them.

Each core takes a part of the arguments. Odd and even functions need a reference for positive
arguments alone; the results for negative arguments are compared with these. A line of output, of
``--stride 512``:

    tanh: 8650752 arguments, 2 decided by mpmath, 0 not correctly rounded; 23 s
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest import mock

import jax
import ml_dtypes
import mpmath as mp
import numpy as np

from conformance.lab.elementary import reference
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS, _words, exponentials, logarithms

#: The number of arguments that are computed at a time.
BLOCK = 1 << 22
#: The functions whose products are not sealed, and the modules of their polynomials.
UNSEALED = {
    "exp": exponentials,
    "log": logarithms,
    "log1p": logarithms,
    "logistic": exponentials,
}
#: The error that a result may have, in units in the last place.
MOST = 0.5001
#: The relative change of a polynomial that may change no result.
_CHANGE = 2.0**-48
_SIGN = 1 << 31
_FLOAT32 = np.dtype(np.float32)
_SHORT = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


@dataclasses.dataclass
class Outcome:
    """The findings about a function.

    Attributes:
        tried: The number of arguments.
        by_mpmath: The number of results that mpmath decided.
        wrong: The results that are not correctly rounded: the argument and the result.
        error: The greatest error of those, in units in the last place.
        contracted: The arguments whose result depends on contraction.
    """

    tried: int = 0
    by_mpmath: int = 0
    wrong: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    error: float = 0.5
    contracted: list[float] = dataclasses.field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Adds the findings about other arguments."""
        self.tried += other.tried
        self.by_mpmath += other.by_mpmath
        self.wrong += other.wrong
        self.error = max(self.error, other.error)
        self.contracted += other.contracted

    def add_grave(self, x: np.ndarray, results: np.ndarray) -> None:
        """Adds results that are wrong by more than a rounding."""
        if len(x):
            self.wrong += [(float(a), float(b)) for a, b in zip(x, results, strict=True)]
            self.error = float("inf")


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
        values = reference.near_values(self.name, x)
        outcome = self._judge(x, result, values)
        for program, factor in self._changed:
            with _polynomials_times(UNSEALED[self.name], factor):
                differs = bits(self._run(program, x)) != bits(result)
            outcome.contracted += [float(v) for v in x[differs & ~np.isnan(result)]]
        symmetry = reference.REFERENCES[self.name].symmetry
        if symmetry:
            mirrored = self._run(self._plain, -x)
            expected = result if symmetry > 0 else -result
            differs = (bits(mirrored) != bits(expected)) & ~np.isnan(result)
            differs |= np.isnan(mirrored) != np.isnan(result)
            outcome.tried += len(x)
            outcome.add_grave(-x[differs], mirrored[differs])
        return outcome

    def _run(self, program: Any, x: np.ndarray) -> np.ndarray:
        with arithmetic.wide():
            return np.asarray(program(x))

    def _judge(self, x: np.ndarray, result: np.ndarray, values: np.ndarray) -> Outcome:
        outcome = Outcome(tried=len(x))
        differs = bits(result) != bits(reference.rounded(values, x.dtype))
        differs &= ~(np.isnan(result) & np.isnan(values))
        # The sign of a zero, an infinity or a NaN is known without mpmath.
        ordinary = np.isfinite(values)
        open_cases = (differs & ordinary) | reference.undecided(values, x.dtype)
        outcome.add_grave(x[differs & ~ordinary], result[differs & ~ordinary])
        for i in np.flatnonzero(open_cases):
            exact = reference.exact_value(self.name, float(x[i]))
            right = reference.rounded_exactly(exact, x.dtype)
            outcome.by_mpmath += 1
            if bits(right[None]) != bits(result[i : i + 1]):
                outcome.wrong.append((float(x[i]), float(result[i])))
                outcome.error = max(outcome.error, _error(exact, result[i], right))
        return outcome


def _program(name: str) -> Any:
    """Returns the program of a function, which shares no trace with another program."""

    def call(x: jax.Array) -> jax.Array:
        return FUNCTIONS[name](x)

    return jax.jit(call)


def bits(values: np.ndarray) -> np.ndarray:
    """Returns the bits of floats as integers."""
    return values.view(np.dtype(f"int{8 * values.dtype.itemsize}"))


def _error(exact: Any, result: Any, right: Any) -> float:
    """Returns the error of a result in units in the last place of the right one."""
    info = ml_dtypes.finfo(np.asarray(result).dtype)
    exponent = np.frexp(float(right))[1] - info.nmant - 1
    if not np.isfinite(float(result)):
        return float("inf")
    return float(abs(mp.mpf(float(result)) - exact) / mp.mpf(2) ** int(exponent))


@contextlib.contextmanager
def _polynomials_times(module: Any, factor: float) -> Iterator[None]:
    """A scope in which a module's polynomials are multiplied by a factor when it is traced."""

    def changed(coefficients: Sequence[float], x: jax.Array, **options: Any) -> jax.Array:
        value = _words.polynomial(coefficients, x, **options)
        return _words.times(value, factor)

    with mock.patch.object(module, "polynomial", changed):
        yield


def check_part(name: str, part: int, parts: int, stride: int) -> Outcome:
    """Checks a part of the float32 arguments, in blocks; every ``stride``-th block.

    Args:
        name: The name of the primitive.
        part: The number of the part.
        parts: The number of parts.
        stride: 1 for all blocks.
    """
    count = (1 << 32) // BLOCK
    if reference.REFERENCES[name].symmetry:
        count //= 2
    checker, outcome = Checker(name), Outcome()
    for block in range(part * stride, count, parts * stride):
        raw = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint32)
        outcome.add(checker.check(raw.view(_FLOAT32)))
    if part == 0:
        for dtype in _SHORT:
            raw = np.arange(1 << 16, dtype=np.uint16)
            short = Checker(name).check(raw.view(dtype))
            outcome.add(short)
    return outcome


def _pin(cores: Any) -> None:
    """Gives this process a core of its own, so that XLA starts one thread."""
    os.sched_setaffinity(0, {cores.get()})
    jax.config.update("jax_platforms", "cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks functions, prints a line for each, and returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="the primitives (default: all)")
    parser.add_argument("--stride", type=int, default=1, help="check one block in N", metavar="N")
    options = parser.parse_args(arguments)
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    available = sorted(os.sched_getaffinity(0))
    for core in available:
        cores.put(core)
    failed = False
    with ProcessPoolExecutor(len(available), context, _pin, (cores,)) as pool:
        for name in options.names or reference.REFERENCES:
            start = time.perf_counter()
            parts = len(available)
            tasks = [
                pool.submit(check_part, name, part, parts, options.stride) for part in range(parts)
            ]
            outcome = Outcome()
            for task in tasks:
                outcome.add(task.result())
            failed |= bool(outcome.contracted) or outcome.error > MOST
            print(_line(name, outcome, time.perf_counter() - start), flush=True)
    return int(failed)


def _line(name: str, outcome: Outcome, seconds: float) -> str:
    found = f"{outcome.tried} arguments, {outcome.by_mpmath} decided by mpmath"
    wrong = f"{len(outcome.wrong)} not correctly rounded"
    if outcome.wrong:
        some = ", ".join(f"{a.hex()} to {b.hex()}" for a, b in outcome.wrong[:8])
        wrong += f" (at most {outcome.error:.9f} ulp: {some})"
    line = f"{name}: {found}, {wrong}"
    if name in UNSEALED:
        some = ", ".join(a.hex() for a in outcome.contracted[:8])
        line += f", {len(outcome.contracted)} depend on contraction {some}".rstrip()
    return f"{line}; {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
