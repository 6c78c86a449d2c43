"""Functions that the rules of primitives share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.interpreters import ad, mlir

import spec
from impl._core.jax_internals import Primitive


def register_per_platform(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Registers ``rule(platform, context, *args, **params)`` for each platform of the spec.

    For all other platforms ``platform`` is None.
    """
    mlir.register_lowering(primitive, functools.partial(rule, None))
    for platform in spec.platforms():
        mlir.register_lowering(primitive, functools.partial(rule, platform), platform=platform)


def zero_tangent(value: jax.Array) -> ad.Zero:
    """Returns the symbolic zero that is a tangent of ``value``."""
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def batch_to_front(value: jax.Array, dim: int | None, size: int) -> jax.Array:
    """Moves the batch axis to the front; adds one by a broadcast if there is none."""
    if dim is None:
        return jax.numpy.broadcast_to(value[None], (size, *value.shape))
    return jax.numpy.moveaxis(value, dim, 0)


def batch_size(args: Sequence[jax.Array], dims: Sequence[int | None]) -> int:
    """Returns the length of the batch axis."""
    return next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
