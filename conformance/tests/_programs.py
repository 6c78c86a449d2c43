"""The runs of a program that its tests compare, each compiled once."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import impl
from conformance.lab import user_programs
from impl._core.jax_internals import rules

#: Schedule 0 keeps the order of the updates.
SEEDS = range(5)


@dataclasses.dataclass(frozen=True)
class Runs:
    """The results of a program, with its updates in the order of each of ``SEEDS``."""

    off: list[Any]
    on: list[Any]


@functools.cache
def built(name):
    return user_programs.build(name)


@functools.cache
def lowered_off(name):
    """The text of a program for CUDA with the mode off."""
    return lowered(*built(name))


def lowered(step, args):
    """The text of a program for CUDA, traced anew."""

    def program(*args):
        return step(*args)

    return impl.testing.lower(program, *args).as_text()


def lowered_by_jax(step, args):
    """The same, with the lowering rules that JAX has before ``impl`` is imported."""
    ours = list(rules.replacements)
    rules.replacements.clear()
    try:
        return lowered(step, args)
    finally:
        rules.replacements.extend(ours)


def run(step, args):
    """The results in each schedule, with the mode off and on."""
    return Runs(*(_in_schedules(step, args, mode=mode) for mode in (False, True)))


def _in_schedules(step, args, *, mode):
    seed, results = impl.testing.Seed(), []
    with impl.deterministic(mode), impl.testing.schedule(seed):
        compiled = jax.jit(step).lower(*args).compile()
        for seed.value in SEEDS:
            results.append(jax.block_until_ready(compiled(*args)))
    return results


def bits(tree):
    """The bits of all arrays of a result."""
    return tuple(_plain(leaf).tobytes() for leaf in jax.tree.leaves(tree))


def distance(left, right):
    """The Euclidean distance of all floats of two trees."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    differences = [
        np.float64(_plain(one)) - np.float64(_plain(other))
        for one, other in pairs
        if jnp.issubdtype(one.dtype, jnp.floating)
    ]
    return float(np.sqrt(sum(np.sum(difference**2) for difference in differences)))


def _plain(array):
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)
