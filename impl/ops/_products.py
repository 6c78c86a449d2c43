"""What mm, mv and bmm share: the checks, the facts, and which product serves an operand."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import jax
from jax.experimental.sparse import BCOO

import spec
from impl import checks
from impl.checks import Array
from impl.decide import decide
from impl.ops import _sparse
from impl.primitives.alert import alert
from impl.primitives.matmul import matmul

#: What is taken for a left operand.
Left: TypeAlias = Array | BCOO


def left(function: str, input: Any) -> jax.Array | BCOO:
    """``input``, dense or sparse.

    Raises:
        TypeError: It is neither.
    """
    return input if isinstance(input, BCOO) else checks.array(function, "input", input)


def check_dtypes(function: str, input: jax.Array | BCOO, name: str, other: jax.Array) -> None:
    """Refuses operands of two dtypes, and bools.

    Raises:
        NotImplementedError: They are bools.
        RuntimeError: They differ.
    """
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"{function}(): expected input and {name} to have the same dtype, but got: "
            f"{input.dtype} != {other.dtype}; convert one of them"
        )
    if checks.dtype_kind(input.dtype) == "bool":
        raise NotImplementedError(
            f"{function}(): not implemented for bool; it takes integers, floats and complex numbers"
        )


def product(function: str, input: jax.Array | BCOO, other: jax.Array) -> jax.Array:
    """[m, k] by [k, n], or [batch, m, k] by [batch, k, n], as the rows of ``function`` have it."""
    stated = _facts(input)
    decision, pullback = decide(function, **stated), decide(function, "backward", **stated)
    if isinstance(input, BCOO):
        out = _sparse.product(input, other, decision=decision, pullback=pullback)
    else:
        operands = (value if value.ndim == 3 else value[None] for value in (input, other))
        out = matmul(*operands, decision=decision, pullback=pullback)
    # Said of the result, not of an operand, which a gradient reads again.
    return alert(out, decision).reshape(*input.shape[:-1], other.shape[-1])


def _facts(input: jax.Array | BCOO) -> dict[str, spec.FactValue]:
    # The environment is read when a program is traced; what is compiled does not ask again.
    return {
        "dtype": checks.dtype_kind(input.dtype),
        "input_ndim": input.ndim,
        "sparse": isinstance(input, BCOO),
        "cublas_workspace_config": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
    }
