"""Plain functions of jax.numpy under PyTorch's names, and a mode that does nothing."""

import jax.numpy as jnp

from conformance.tests._small import Small

_mode = Small().namespace
use_deterministic_algorithms = _mode.use_deterministic_algorithms
are_deterministic_algorithms_enabled = _mode.are_deterministic_algorithms_enabled
deterministic = _mode.deterministic


def index_add(input, dim, index, source, *, alpha=1):
    rows = jnp.moveaxis(input, dim, 0).at[index].add(jnp.moveaxis(alpha * source, dim, 0))
    return jnp.moveaxis(rows, 0, dim)


def cumsum(input, dim):
    return jnp.cumsum(input, dim)


def gather(input, dim, index):
    return jnp.take_along_axis(input, index, dim) if input.ndim else input
