"""The fixed arguments of the elementary functions whose results have known digests.

``python -m conformance.lab.elementary.digests`` computes the digests.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS, _words, doubles
from impl._exact.elementary._words import EXCEPTIONS

#: The digests: for each sample, of the rounded results and of those in float64.
DIGESTS = Path(__file__).with_name("elementary_digests.json")
COUNT = 1 << 12
FLOAT32, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
SHORT = (np.dtype(np.float16), np.dtype(jnp.bfloat16))
#: The functions of two arguments.
OF_TWO = ("atan2", "div", "pow")
#: The functions that are tried with 16 bits. The rest are rounded by the same code.
WITH_SHORT = ("exp", "log", "div", "tanh")
#: The functions of float64 that are pairs, and arguments near the middles of two float64, which
#: Lefevre and Muller and their successors found, or where a series has a middle as a term.
WITH_DOUBLE = tuple(doubles.FUNCTIONS)
HARDEST = Path(__file__).with_name("elementary_hardest.json")
#: The exponents of ``integer_pow``.
EXPONENTS = (-37, -3, -1, 2, 3, 7, 60)
_ORDINARY = {
    "acos": (-1.0, 1.0),
    "acosh": (1.0, 20.0),
    "asin": (-1.0, 1.0),
    "atanh": (-1.0, 1.0),
    "erf_inv": (-1.0, 1.0),
    "log": (0.0, 20.0),
    "log1p": (-1.0, 20.0),
    "log2": (0.0, 20.0),
    "rsqrt": (0.0, 20.0),
    "sqrt": (0.0, 20.0),
}
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e30, 1e-30)


def samples(name: str) -> list[tuple[tuple[np.ndarray, ...], dict[str, Any]]]:
    """Returns the operands and parameters of the calls of a primitive's function."""
    dtypes = [FLOAT32, *(SHORT if name in WITH_SHORT else ())]
    dtypes += [DOUBLE] if name in WITH_DOUBLE else []
    parameters = [{"y": exponent} for exponent in EXPONENTS] if name == "integer_pow" else [{}]
    return [(_operands(name, dtype), fields) for fields in parameters for dtype in dtypes]


def _operands(name: str, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Returns floats of all exponents, ordinary ones, special ones, and exceptions."""
    low, high = _ORDINARY.get(name, (-12.0, 12.0))
    result: list[np.ndarray] = []
    for factor in (2654435761, 2246822519)[: 2 if name in OF_TWO else 1]:
        words = (np.arange(1, COUNT + 1, dtype=np.uint64) * np.uint64(factor)).astype(np.uint32)
        fractions = words[::-1] / 2.0**32
        ordinary = low + (high - low) * fractions
        pairs = np.array(_SPECIAL)
        pairs = np.tile(pairs, len(pairs)) if result else np.repeat(pairs, len(pairs))
        if dtype == DOUBLE:
            words = words * np.uint64(0x9E3779B97F4A7C15)
            hardest = json.loads(HARDEST.read_text("utf-8")).get(name, [])
            known = np.array([float.fromhex(argument) for argument in hardest])
            result.append(np.concatenate([words.view(DOUBLE), ordinary, pairs, known]))
            continue
        with np.errstate(all="ignore"):
            exceptions = EXCEPTIONS.get(name, ()) if dtype == FLOAT32 else ()
            known = np.array([argument for argument, _ in exceptions])
            values = np.concatenate([words.view(np.float32), ordinary, pairs, known])
            result.append(values.astype(FLOAT32).astype(dtype))
    return tuple(result)


def with_double(
    name: str, operands: tuple[np.ndarray, ...], parameters: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the results of a function in float64, before they are rounded, and the results."""
    doubles: list[jax.Array] = []

    def narrow(value: jax.Array, dtype: np.dtype) -> jax.Array:
        doubles.append(arithmetic.seal(value))
        return arithmetic.narrow(value, dtype)

    def program(*operands: jax.Array) -> tuple[jax.Array, jax.Array]:
        result = FUNCTIONS[name](*operands, **parameters)
        return doubles[-1], result

    with mock.patch.object(_words, "narrow", narrow), arithmetic.wide():
        double, result = jax.jit(program)(*operands)
        return np.asarray(double), np.asarray(result)


def digest(results: np.ndarray) -> str:
    """Returns a SHA-256 of the bits of floats, in which all NaN are one."""
    word = np.dtype(f"uint{8 * results.dtype.itemsize}")
    words = results.view(word).copy()
    words[np.isnan(results)] = np.iinfo(word).max
    return hashlib.sha256(words.tobytes()).hexdigest()


def key(name: str, operands: tuple[np.ndarray, ...], parameters: dict[str, Any]) -> str:
    """Returns the name of a sample in the file of digests."""
    return " ".join([name, operands[0].dtype.name, *map(str, parameters.values())])


def digests() -> dict[str, dict[str, str]]:
    """Returns the digests that are known."""
    known: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text("utf-8"))
    return known
