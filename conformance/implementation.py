"""What the suite asks of an implementation, and nothing else: ops, a mode, arrays, gradients."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Implementation(Protocol):
    """Whoever's ops are tried.

    ``conformance.adapters.base.Adapter`` has a default for most of it.

    Attributes:
        name: The module that was asked for.
        namespace: What samples are called with: ops by dotted name.
        release: The PyTorch release whose behaviour it has, as ``2.13``; None if it has profiles.
        own: Whether it is this project's: it asks the spec about every call, names rows in its
            alerts, and gives what ``Sample.own`` says where others may give something else.
        keeps_orders: Whether it adds up in the orders of the spec, so that every bit is known;
            otherwise the bits of two runs are compared.
        can_lower: Whether ``program`` tells what a call would do on any device.
        keeps_promises: Whether it has the generators and loaders of rows of those kinds.
        expectations: The file of what is known of it, used where none is asked for.
    """

    name: str
    namespace: Any
    release: str | None
    own: bool
    keeps_orders: bool
    can_lower: bool
    keeps_promises: bool
    expectations: Path | None

    def versions(self) -> Mapping[str, str]:
        """What is tried, by the names that conditions of expectations use."""

    def devices(self) -> Sequence[str]:
        """The devices of the spec that calls can run on here; the first one is the default."""

    def ways(self, device: str) -> Sequence[str]:
        """The ways to run here what ``device`` would: ``native``, or names of stand-ins."""

    def running(self, device: str, way: str) -> contextlib.AbstractContextManager[None]:
        """A scope in which calls run on ``device`` in one of its ways."""

    def repeats(self, device: str) -> int:
        """How often a call is run to compare bits, where nobody said."""

    def mode(
        self, mode: bool = True, *, profile: str | None = None, warn_only: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """A scope with the mode on or off."""

    def set_mode(self, mode: bool) -> None:
        """Turns the mode on or off, outside any scope."""

    def enabled(self) -> bool:
        """Whether the mode is on, as the implementation says itself."""

    def pullback(self, call: Callable[..., Any], place: int) -> Callable[..., Any]:
        """The gradient of ``call`` by its argument at ``place``.

        It is a function of a cotangent and the arguments.
        """

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,
        *,
        exact: bool = True,
    ) -> Callable[[], Any]:
        """A call that is ready to run, under the mode that holds.

        Args:
            function: Takes arrays of the implementation and returns one, or a tuple of them.
            inputs: NumPy arrays.
            key: Names the function and its inputs, so that what was made of them can be used
                again; None for what is not to be kept.
            exact: Whether the bits of the result count; where they do not, it may be made in a
                cheaper way.

        Returns:
            What runs it once, and returns NumPy arrays.
        """

    def attempt(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> None:
        """Goes as far with a call as it takes to raise or warn, on a device that may be absent."""

    def program(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> str:
        """The program of a call lowered for ``device``; only where ``can_lower``."""


def resolve(namespace: Any, op: str) -> Any:
    """The function of that dotted name in a namespace, or None."""
    for part in op.split("."):
        namespace = getattr(namespace, part, None)
    return namespace if callable(namespace) else None


def load(name: str) -> Implementation:
    """The implementation that a module offers as ``IMPLEMENTATION``.

    A module without it is a namespace of functions of JAX arrays.

    Raises:
        ImportError: There is no such module, or it lacks something of its own.
        AttributeError: It has no mode.
    """
    return of(importlib.import_module(name))


def of(namespace: Any) -> Implementation:
    """As ``load``, of a module; an implementation stands for itself."""
    if isinstance(namespace, Implementation):
        return namespace
    offered = getattr(namespace, "IMPLEMENTATION", None)
    if isinstance(offered, Implementation):
        return offered
    from conformance.adapters import jax  # noqa: PLC0415  # others do without JAX's ops

    return jax.of(namespace)
