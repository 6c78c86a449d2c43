"""Checks and facts of the matrix products ``mm``, ``mv``, ``bmm`` and ``sparse.mm``.

``product`` computes the dense or the sparse product, depending on the left operand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import jax

import spec
from impl._core import arguments, eager, products
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl.ops import _products as _sparse
from impl.ops._products import Sparse, is_sparse

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: A left operand, dense or sparse.
Left: TypeAlias = "Array | Sparse"


def left(function: str, input: Any) -> jax.Array | Sparse:
    """Returns the left operand ``input``, checked.

    Raises:
        RuntimeError: A sparse ``input`` has dense dimensions or an index that is out of range.
        TypeError: ``input`` is neither an array nor sparse.
    """
    if is_sparse(input):
        return sparse(function, "input", input)
    return arguments.array(function, "input", input)


def sparse(function: str, name: str, value: Any) -> Sparse:
    """Returns the sparse operand ``value``, checked.

    Raises:
        RuntimeError: It has dense dimensions or an index that is out of range.
        TypeError: It is not sparse.
    """
    if not is_sparse(value):
        raise TypeError(
            f"{function}(): argument '{name}' must be a jax.experimental.sparse.BCOO or BCSR, not "
            f"{type(value).__name__}; {function.rpartition('.')[2]} takes dense matrices"
        )
    _sparse.check(function, name, value)
    return value


def check_matrices(function: str, **operands: jax.Array | Sparse) -> None:
    """Refuses two operands, given by name, that cannot be multiplied as matrices.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: An operand is not a matrix, or shapes or dtypes do not fit.
    """
    for name, operand in operands.items():
        if operand.ndim != 2:
            raise RuntimeError(
                f"{function}(): {name} must be a matrix, but got shape {list(operand.shape)}"
                f"{_other_product(operand.ndim)}"
            )
    (left, a), (right, b) = operands.items()
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{function}(): {left} and {right} shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    check_dtypes(function, a, right, b, left=left)


def _other_product(ndim: int) -> str:
    """Returns the end of a message: the function for operands of that many dimensions."""
    if ndim < 2:
        return "; impl.mv multiplies a matrix and a vector"
    several = "" if ndim == 3 else ", once reshaped to three dimensions"
    return f"; impl.bmm multiplies batches of matrices{several}"


def check_dtypes(
    function: str,
    input: jax.Array | Sparse,
    name: str,
    other: jax.Array | Sparse,
    *,
    left: str = "input",
) -> None:
    """Refuses operands of two dtypes, and operands of bools.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: The dtypes differ.
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


def product(
    function: str, input: jax.Array | Sparse, other: jax.Array, **others: spec.FactValue
) -> jax.Array:
    """Multiplies [m, k] by [k, n], or [batch, m, k] by [batch, k, n].

    The rows of ``function`` decide the alerts of the product and of its gradients. ``others`` are
    the facts that only the rows of some functions ask for.
    """
    facts = {"dtype": arguments.dtype_kind(input.dtype), "input_ndim": input.ndim, **others}
    decision, pullback = decide(function, **facts), decide(function, "backward", **facts)
    if is_sparse(input):
        out = _sparse.product(input, other)
    else:
        dense: Any = input  # A type guard does not narrow the type in the other branch.
        out = products.matmul(dense, other)
    # The alert is attached to the result. A gradient reads the operands again, and would repeat an
    # alert attached to one of them.
    return alert(alert_pullback(out, pullback), decision)


def library_facts(input: jax.Array | Sparse) -> dict[str, spec.FactValue]:
    """Returns the facts of products that NVIDIA's libraries may compute."""
    return {"sparse": is_sparse(input), "cublas_workspace_config": _workspace()}


def _workspace() -> str:
    # The environment is read when a program is traced. A compiled program does not read it again.
    return os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Returns an op with ``library_facts`` that compiles its calls outside of any trace."""
    return eager.compiled(function, setting=_workspace)
