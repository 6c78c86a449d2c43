"""Arrays of random numbers for the programs."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def normal(seed: int, *shape: int) -> jax.Array:
    """Returns normal numbers."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def integers(seed: int, below: int, *shape: int) -> jax.Array:
    """Returns integers from 0 on, below a bound."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, below, shape), jnp.int32)


def weights(tree: Any) -> Any:
    """Returns small normal numbers in the shapes and dtypes of a tree, with ones for scales.

    The tree is of ``jax.eval_shape`` of a model's ``init``, which compiles nothing.
    """
    leaves, structure = jax.tree.flatten_with_path(tree)
    filled = []
    for seed, (path, leaf) in enumerate(leaves):
        fan_in = math.prod(leaf.shape[:-1])
        array = normal(seed, *leaf.shape) / math.sqrt(max(fan_in, 4))
        is_scale = str(path[-1]) in ("['scale']", "['var']")
        filled.append((1 + array**2 if is_scale else array).astype(leaf.dtype))
    return jax.tree.unflatten(structure, filled)
