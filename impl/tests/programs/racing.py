"""A sum by index whose result depends on the order of its updates, and two orders of them."""

import jax.numpy as jnp
import numpy as np

import impl

SIZES = np.array([1.0, 1e8, -1e8, 3.0, 1e-3, 7.0], np.float32)
SAME = np.array([0, 0, 0, 0, 1, 1])
OTHER = np.arange(6)


def schedules():
    """Returns two runs, in each of which updates come in another order."""
    return impl.testing.schedule(1), impl.testing.schedule(3)


def sums(index, values):
    """Adds values by index, and depends on the order of the updates where an index repeats."""
    return jnp.zeros(6).at[index].add(values)  # The tests look for this line.


LINE = f"{__file__.rpartition('/')[2]}:{sums.__code__.co_firstlineno + 2}"
