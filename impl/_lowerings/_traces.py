"""Lowerings that are traced once, and not again for each program that they are a part of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from impl._core.jax_internals import forgotten
from impl._core.jax_internals.lowering import Traced

#: The lowerings whose traces are kept. The one that was used longest ago goes first.
KEPT = 1024


def traced_once(
    make: Callable[..., Callable[..., Any]], *args: Hashable, **params: Hashable
) -> Callable[..., Any]:
    """Returns ``make(*args, **params)``, a function of arrays that is traced once for their types.

    JAX keys the trace by its trace context too, which has the mode and every other setting. The
    equations become a part of the caller's: there is no call in the program. A lowering rule of
    it lowers the kept equations as they are.

    Args:
        make: Makes the function. It may read nothing else that changes.
        *args: Its arguments.
        **params: More arguments. If one has no hash, the function is traced each time.
    """
    ordered = tuple(sorted(params.items()))
    try:
        # Equal values may differ, as 0.0 and -0.0 do, or 1 and True.
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
