"""Tries the functions of two arguments, which have too many pairs of arguments to try each.

- How ``integer_pow`` rounds depends on the significand and the exponent alone, since a power of two
  only scales it. So 2**23 arguments for each exponent are a proof, for ``EXPONENTS``.
- ``pow`` is tried with every significand for each of ``_POWERS``, such as 1.5, with even and odd
  exponents of the base, and with random pairs.
- ``atan2`` and ``div`` are tried with random pairs.

Random pairs come from a counter, so that a run can be repeated. Of 2**28 pairs, the hardest value
is within about 2**-53 of the middle of two floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from conformance.lab.elementary import judge
from conformance.lab.elementary.findings import Outcome
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS

#: The exponents of ``integer_pow``.
EXPONENTS = (*range(-64, 0), *range(1, 65))
#: The exponents of ``pow`` that are tried with every significand.
_POWERS = (-2.5, -2.0, -1.5, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 2.0, 2.5, 3.0)
#: The number of arguments that are computed at a time.
_BLOCK = 1 << 16
#: The blocks of random pairs of float32. Shorter floats have a few.
_RANDOM_BLOCKS = 1 << 12
_FLOAT32 = np.dtype(np.float32)


def check_part(name: str, part: int, parts: int, stride: int, dtype: np.dtype) -> Outcome:
    """Checks every ``parts * stride``-th block of a function, from the block ``part * stride`` on.

    Args:
        name: ``atan2``, ``div``, ``integer_pow`` or ``pow``.
        part: The number of the part.
        parts: The number of parts.
        stride: 1 for all blocks.
        dtype: float32, float16 or bfloat16.
    """
    outcome = Outcome()
    programs: dict[int | None, Any] = {}
    for number, (operands, y) in enumerate(_blocks(name, dtype)):
        if number % (parts * stride) != part * stride:
            continue
        if y not in programs:
            programs[y] = _program(name, y)
        x = operands()
        with arithmetic.wide():
            result = np.asarray(programs[y](*x))
        if y is not None:
            x = (*x, np.full(x[0].shape, float(y)))
        outcome.add(judge.judged(name, result, *x))
    return outcome


def _program(name: str, y: int | None) -> Any:
    parameters = {} if y is None else {"y": y}
    return jax.jit(lambda *operands: FUNCTIONS[name](*operands, **parameters))


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
                yield (lambda operand=operand, power=power: _with_power(operand(), power)), None
    for number in range(_RANDOM_BLOCKS if dtype == _FLOAT32 else _RANDOM_BLOCKS // 64):
        yield (lambda number=number: _random_pairs(name, number, dtype)), None


def _with_power(x: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    return x, np.full(x.shape, power, x.dtype)


def _significands(dtype: np.dtype, binades: int) -> Iterator[Any]:
    """Yields functions that return blocks of floats from 1 on; of 16 bits, of all floats."""
    if dtype != _FLOAT32:
        yield lambda: np.arange(1 << 16, dtype=np.uint16).view(dtype)
        return
    first = int(np.array(1, np.float32).view(np.uint32))
    for start in range(first, first + (binades << 23), _BLOCK):
        yield lambda start=start: np.arange(start, start + _BLOCK, dtype=np.uint32).view(dtype)


def _random_pairs(name: str, number: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs whose results are seldom zero or infinite."""
    rng = np.random.default_rng((number, len(name)))
    a, b = rng.uniform(1, 2, (2, _BLOCK)) * 2.0 ** rng.integers(-12, 12, (2, _BLOCK))
    if name == "pow":
        # Half of the bases are close to 1, so that their exponents are great.
        near = 1 + rng.uniform(-1, 1, _BLOCK) * 2.0 ** -rng.integers(1, 20, _BLOCK)
        a = np.where(rng.random(_BLOCK) < 0.5, near, a).astype(dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            b = rng.uniform(-86, 86, _BLOCK) / np.log(a)
        b = np.where(np.isfinite(b), b, 1)
    else:
        a, b = (side * rng.choice((-1.0, 1.0), _BLOCK) for side in (a, b))
    return a.astype(dtype), b.astype(dtype)
