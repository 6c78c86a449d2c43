"""Finds the adapter of a module.

JAX and ``impl`` are imported only for modules of JAX functions, so that another implementation can
be tested without them.
"""

from __future__ import annotations

import importlib
from typing import Any

from conformance.adapters.base import Adapter


def load(name: str) -> Adapter:
    """Returns the adapter that a module offers as ``IMPLEMENTATION``.

    A module without it is a namespace of functions of JAX arrays.

    Raises:
        ImportError: The module does not exist, or lacks a module that it imports.
        AttributeError: The namespace has no mode.
        TypeError: ``IMPLEMENTATION`` is not an adapter.
    """
    return of(importlib.import_module(name))


def of(namespace: Any) -> Adapter:
    """Returns the adapter of a module, as ``load`` does. An adapter is its own adapter."""
    if isinstance(namespace, Adapter):
        return namespace
    offered = getattr(namespace, "IMPLEMENTATION", None)
    if isinstance(offered, Adapter):
        return offered
    if offered is not None:
        raise TypeError(
            f"{namespace.__name__}.IMPLEMENTATION is {offered!r}; its class has to be derived from "
            "conformance.adapters.base.Adapter"
        )
    import impl  # noqa: PLC0415  # other implementations do without JAX
    from conformance.adapters.jax import JaxNamespace  # noqa: PLC0415  # as above
    from conformance.adapters.samebits import Samebits  # noqa: PLC0415  # as above

    return Samebits() if namespace is impl else JaxNamespace(namespace)
