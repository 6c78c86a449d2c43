"""Operands of a scatter along the middle axis of three axes."""

import jax
import numpy as np

from impl._mode.decide import Action, Decision
from impl._mode.emulation import current
from impl.tests.support.bits import assert_same_bits

#: Indices of eight updates of four elements; the last two are out of range.
INDEX = np.array([0, 2, 0, 1, 0, 2, 7, -1], np.int32)[None, :, None]


def decision(path="ordered"):
    return Decision(elsewhere=Action(path=path), emulation=current())


def lanes(*values):
    return np.array(values, np.float32)[None, :, None]


def assert_batch_has_the_bits_of_its_members(function):
    """Batches a scatter with indices of each member, and with shared ones."""
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((3, 2, 4, 2)), rng.standard_normal((3, 2, 8, 2))
    x, u = x.astype(np.float32), u.astype(np.float32)
    for index, axis in ((np.tile(INDEX, (3, 1, 1, 1)), 0), (INDEX, None)):
        got = jax.vmap(function, (0, axis, 0))(x, index, u)
        members = [function(x[b], INDEX, u[b]) for b in range(3)]
        assert_same_bits(got, np.stack(members))
