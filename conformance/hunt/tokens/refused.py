"""Tokens that the guarantee refuses by name, and a primitive of another library that it takes.

A token, and the message in place of a result::

    [igamma]  lax.igamma of float32[8], float32[8] has no portable path: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool


def pair(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, nonempty=True)
    aval = pool.aval(first)
    return Choice((first, pool.like(aval)), {}, aval.with_dtype(options.get("to", dtype)))


def one(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_shape(*aval.shape[options.get("loses", 0) :]))
