"""Lowerings that are traced once, and not again for each program that they are a part of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from impl._core.jax_internals import forgotten
from impl._core.jax_internals.lowering import Traced

#: The number of lowerings whose traces are cached. The least recently used is dropped first.
KEPT = 1024


def traced_once(
    make: Callable[..., Callable[..., Any]], *args: Hashable, **params: Hashable
) -> Callable[..., Any]:
    """Returns ``make(*args, **params)``, a function of arrays that is traced once for their types.

    JAX keys the trace by its trace context too, which has the mode and every other setting. The
    traced equations are inlined into the caller's program, without a call. A lowering rule of the
    function lowers the cached equations as they are.

    Args:
        make: Makes the function, from its arguments alone.
        *args: Positional arguments of ``make``.
        **params: Keyword arguments of ``make``. If one has no hash, the function is traced each
            time.
    """
    ordered = tuple(sorted(params.items()))
    try:
        # The text tells values apart that compare equal: 0.0 and -0.0, 1 and True.
        return _kept(make, args, ordered, repr(ordered))
    except TypeError:
        return make(*args, **params)


@forgotten
@functools.lru_cache(maxsize=KEPT)
def _kept(
    make: Callable[..., Callable[..., Any]],
    args: tuple[Any, ...],
    params: tuple[tuple[str, Any], ...],
    _: str,
) -> Callable[..., Any]:
    return Traced(make(*args, **dict(params)))
