"""Tags of equations: a value that JAX stores in each equation that it traces inside a scope.

JAX stores the metadata of ``jax.experimental.xla_metadata.set_xla_metadata`` in each equation, and
restores them when it differentiates, batches, copies or lowers the equation. A tag is one entry of
these metadata, so the equations that JAX derives from an equation have it too, even after the
scope::

    with tags.tagging(value):
        jaxpr = jax.make_jaxpr(function)(x).jaxpr
    tags.of(jaxpr.eqns[0])  # value

JAX writes the entry as an attribute of the operations that the equation is lowered to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jax._src import config, core, xla_metadata_lib
from jax._src.lib import _jax  # type: ignore[attr-defined]

#: The name of the entry, and of the attribute.
NAME = "samebits_mode"

_metadata: Any = config.xla_metadata_context_manager


def current() -> Any:
    """Returns the tag that equations get in this thread now; None for no tag.

    While JAX transforms or lowers an equation, this is the tag of the equation; if the equation has
    no tag, the tag of the innermost equation around it that has one.
    """
    metadata = _metadata.value
    return None if metadata is None else metadata.val.get(NAME)


def swap(tag: Any) -> Any:
    """Sets the hashable tag of equations in this thread, or None; returns the previous one."""
    before = current()
    updated = xla_metadata_lib.update_metadata(_metadata.get_local(), {NAME: tag})
    # Metadata without an entry would be another key in JAX's caches than no metadata.
    _metadata.set_local(updated if updated.val else _jax.config.unset)
    return before


@contextlib.contextmanager
def tagging(tag: Any) -> Iterator[None]:
    """Sets the hashable tag that equations get inside, in this thread; None for no tag."""
    before = swap(tag)
    try:
        yield
    finally:
        swap(before)


def of(equation: Any) -> Any:
    """Returns the tag of an equation; None if it has none."""
    return (equation.ctx.xla_metadata or {}).get(NAME)


def tagged(equation: Any, tag: Any) -> Any:
    """Returns an equation with the tag of an equation around it, unless it has one of its own."""
    if tag is None or of(equation) is not None:
        return equation
    with equation.ctx.manager, tagging(tag):
        return equation.replace(ctx=core.JaxprEqnContext())
