"""The order in which samples combine contributions, while the suite asks for their bits.

A row may have one order on a device that does not race, and another everywhere else. A sample
states its bits once, by ``combined``; ``taken`` says in which order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import numpy as np

from conformance.suite.sample import Array
from spec import oracles

_order: ContextVar[str | None] = ContextVar("_order", default=None)


@contextlib.contextmanager
def taken(order: str | None) -> Iterator[None]:
    """Enters the scope in which contributions are combined in an order of ``orders.toml``."""
    token = _order.set(order)
    try:
        yield
    finally:
        _order.reset(token)


def combined(initial: Array, index: Array, source: Array, combine: np.ufunc = np.add) -> Array:
    """Combines row ``index[i]`` of ``initial`` with ``source[i]``, in the order that is taken.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.

    Returns:
        Shape and dtype of ``initial``. Outside of any scope, in the order of the source.
    """
    serial = _order.get() in (None, "source")
    return oracles.scattered(initial, index, source, combine, serial=serial)
