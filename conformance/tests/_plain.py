"""Plain functions of jax.numpy under PyTorch's names, and a mode that does nothing."""

import contextlib

import jax.numpy as jnp

_on = [False]


def use_deterministic_algorithms(mode):
    _on[0] = mode


def are_deterministic_algorithms_enabled():
    return _on[0]


@contextlib.contextmanager
def deterministic(mode=True, *, warn_only=False, profile=None):  # noqa: ARG001
    before, _on[0] = _on[0], mode
    try:
        yield
    finally:
        _on[0] = before


def index_add(input, dim, index, source, *, alpha=1):
    rows = jnp.moveaxis(input, dim, 0).at[index].add(jnp.moveaxis(alpha * source, dim, 0))
    return jnp.moveaxis(rows, 0, dim)


def cumsum(input, dim):
    return jnp.cumsum(input, dim)


def gather(input, dim, index):
    return jnp.take_along_axis(input, index, dim) if input.ndim else input
