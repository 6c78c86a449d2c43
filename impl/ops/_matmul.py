"""What mm, mv and bmm share: the checks, the facts, and which product serves an operand."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import jax
from jax.experimental.sparse import BCOO, BCSR

import spec
from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.matmul import matmul
from impl.ops import _sparse
from impl.ops._sparse import Sparse

#: What is taken for a left operand.
Left: TypeAlias = Array | Sparse


def left(function: str, input: Any) -> jax.Array | Sparse:
    """``input``, dense or sparse.

    Raises:
        RuntimeError: It is sparse, and has dense dimensions or elements beyond its edges.
        TypeError: It is neither.
    """
    if isinstance(input, BCOO | BCSR):
        return sparse(function, "input", input)
    return arguments.array(function, "input", input)


def sparse(function: str, name: str, value: Any) -> Sparse:
    """``value``, a sparse operand.

    Raises:
        RuntimeError: It has dense dimensions or elements beyond its edges.
        TypeError: It is not sparse.
    """
    if not isinstance(value, BCOO | BCSR):
        raise TypeError(
            f"{function}(): argument '{name}' must be a jax.experimental.sparse.BCOO or BCSR, not "
            f"{type(value).__name__}; {function.rpartition('.')[2]} takes what is dense"
        )
    _sparse.check(function, name, value)
    return value


def check_matrices(function: str, **operands: jax.Array | Sparse) -> None:
    """Refuses two operands, by name, that are no matrices that can be multiplied.

    Raises:
        NotImplementedError: They are of bools.
        RuntimeError: They are not.
    """
    for name, operand in operands.items():
        if operand.ndim != 2:
            raise RuntimeError(
                f"{function}(): {name} must be a matrix, but got shape {list(operand.shape)}"
            )
    (left, a), (right, b) = operands.items()
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{function}(): {left} and {right} shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    check_dtypes(function, a, right, b, left=left)


def check_dtypes(
    function: str,
    input: jax.Array | Sparse,
    name: str,
    other: jax.Array | Sparse,
    *,
    left: str = "input",
) -> None:
    """Refuses operands of two dtypes, and bools.

    Raises:
        NotImplementedError: They are bools.
        RuntimeError: They differ.
    """
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"{function}(): expected {left} and {name} to have the same dtype, but got: "
            f"{input.dtype} != {other.dtype}; convert one of them"
        )
    if arguments.dtype_kind(input.dtype) == "bool":
        raise NotImplementedError(
            f"{function}(): not implemented for bool; it takes integers, floats and complex numbers"
        )


def product(function: str, input: jax.Array | Sparse, other: jax.Array) -> jax.Array:
    """[m, k] by [k, n], or [batch, m, k] by [batch, k, n], as the rows of ``function`` have it."""
    stated = _facts(input)
    decision, pullback = decide(function, **stated), decide(function, "backward", **stated)
    if isinstance(input, BCOO | BCSR):
        out = _sparse.product(input, other, decision=decision, pullback=pullback)
    else:
        operands = (value if value.ndim == 3 else value[None] for value in (input, other))
        out = matmul(*operands, decision=decision, pullback=pullback)
    # Said of the result, not of an operand, which a gradient reads again.
    return alert(out, decision).reshape(*input.shape[:-1], other.shape[-1])


def _facts(input: jax.Array | Sparse) -> dict[str, spec.FactValue]:
    # The environment is read when a program is traced; what is compiled does not ask again.
    return {
        "dtype": arguments.dtype_kind(input.dtype),
        "input_ndim": input.ndim,
        "sparse": isinstance(input, BCOO | BCSR),
        "cublas_workspace_config": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
    }
