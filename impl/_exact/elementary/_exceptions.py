"""The arguments whose exact value is so close to the middle of two float32 that float64 errs.

``python -m conformance.lab.elementary.exhaustive`` tries every float32 and finds them. They are few
for each function, so a comparison for each is cheaper than more digits for all. The table is
``exceptions.toml``. For ``sin``::

    sin(0x1.33333p+13)                  -0x1.63f4bafffffffa5c...p-2
    rounded to float64                  -0x1.63f4bb0000000p-2, the middle of two float32
    that rounded to float32             -0x1.63f4bcp-2, the even one
    the nearest float32, in the table   -0x1.63f4bap-2
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from jax import lax

from impl._exact.elementary._words import constant


def _pair(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


_FILE = Path(__file__).with_name("exceptions.toml")
#: For each function, the arguments and their correctly rounded results.
EXCEPTIONS: Mapping[str, Sequence[tuple[float, ...]]] = {
    name: tuple(map(_pair, pairs))
    for name, pairs in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}


def mended(name: str, result: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the results of a function, replaced for its exceptional arguments.

    Args:
        name: The name of the primitive.
        result: Its results. Other dtypes than float32 have no exceptions.
        x: The arguments.
    """
    if result.dtype != np.float32:
        return result
    for argument, value in EXCEPTIONS.get(name, ()):
        is_exception = lax.eq(x, constant(x, argument))
        result = lax.select(is_exception, constant(result, value), result)
    return result
