"""Errors about symbolic sizes, which a program of ``jax.export`` leaves unknown.

Ops compare sizes: they check arguments, and cut work into blocks. JAX raises its own error where a
comparison of a symbolic size has no answer. The error here names the op and the arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def need(op: str, **arrays: jax.Array) -> Iterator[None]:
    """Names the op and the arrays in an error about a size that is unknown.

    Args:
        op: Name of the op.
        **arrays: The arrays whose sizes are compared, by the names of their arguments.

    Raises:
        NotImplementedError: The block compares a symbolic size, and the answer is not known.
    """
    try:
        yield
    except jax.errors.InconclusiveDimensionOperation as error:
        shapes = ", ".join(f"'{name}' of shape {list(a.shape)}" for name, a in arrays.items())
        raise NotImplementedError(
            f"{op}(): needs the sizes of its arguments, but got {shapes}, with a symbolic size; "
            "export the program with known sizes, or add constraints to jax.export.symbolic_shape"
        ) from error
