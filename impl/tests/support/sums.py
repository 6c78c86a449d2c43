"""The oracle of a sum or product of contributions on the device where a test runs."""

import numpy as np

from impl._mode import emulation, modes
from spec import oracles


def in_order(initial, index, source, combine=np.add):
    """Combines contributions as the mode does here: on a CPU, or where it stands in for a GPU.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.
    """
    serial = emulation.current() is None and not modes.current().portable
    return oracles.scattered(initial, index, source, combine, serial=serial)
