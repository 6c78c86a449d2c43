"""What an adapter has to say, and defaults for the rest.

An adapter is a module with ``IMPLEMENTATION``, an object of a class made from ``Adapter``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Adapter:
    """An implementation whose ops run as they are called, on its own arrays.

    A class made from this one has ``name``, ``namespace``, ``into``, ``gradient`` and ``versions``,
    and whatever of the rest is not as here. The namespace has the functions that set the mode, with
    PyTorch's names and ``impl``'s arguments: ``use_deterministic_algorithms``,
    ``are_deterministic_algorithms_enabled`` and ``deterministic``.
    """

    name: str = ""
    namespace: Any = None
    release: str | None = None
    own = False
    keeps_orders = False
    can_lower = False
    keeps_promises = False
    expectations: Path | None = None

    #: Where calls run; ``running`` sets it.
    device = "cpu"

    def into(self, array: Any) -> Any:
        """A fresh array of the implementation, on ``self.device``, with what ``array`` holds.

        Args:
            array: A NumPy array of any shape, of float32, bfloat16 (of ``ml_dtypes``), complex64,
                int32 or bool.
        """
        raise NotImplementedError

    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        """The gradient of ``function`` at an array, for a cotangent of its result's shape."""
        raise NotImplementedError

    def versions(self) -> Mapping[str, str]:
        """What is tried, by name: ``{"torch": "2.13.0"}``."""
        raise NotImplementedError

    def out(self, array: Any) -> Any:
        """The NumPy array that holds what an array of the implementation does."""
        return np.asarray(array)

    def devices(self) -> Sequence[str]:
        """``cpu`` alone."""
        return ("cpu",)

    def ways(self, device: str) -> Sequence[str]:
        """As it is, where the device is there."""
        return ("native",) if device in self.devices() else ()

    def running(self, device: str, way: str) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002  # it has one way
        """Inside, ``self.device`` is ``device``."""
        return self._on(device)

    @contextlib.contextmanager
    def _on(self, device: str) -> Iterator[None]:
        before, self.device = self.device, device
        try:
            yield
        finally:
            self.device = before

    def repeats(self, device: str) -> int:
        """Few on a CPU, where threads alone can change the order; more elsewhere."""
        return 3 if device == "cpu" else 20

    def mode(
        self, mode: bool = True, *, profile: str | None = None, warn_only: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """The namespace's ``deterministic``."""
        scope: contextlib.AbstractContextManager[None] = self.namespace.deterministic(
            mode, warn_only=warn_only, profile=profile
        )
        return scope

    def set_mode(self, mode: bool) -> None:
        """By the namespace's ``use_deterministic_algorithms``."""
        self.namespace.use_deterministic_algorithms(mode)

    def enabled(self) -> bool:
        """As the namespace's ``are_deterministic_algorithms_enabled`` says."""
        return bool(self.namespace.are_deterministic_algorithms_enabled())

    def pullback(self, call: Callable[..., Any], place: int) -> Callable[..., Any]:
        """By ``gradient``."""

        def pulled(cotangent: Any, *arrays: Any) -> Any:
            def by(value: Any) -> Any:
                return call(*arrays[:place], value, *arrays[place + 1 :])

            return self.gradient(by, arrays[place], cotangent)

        return pulled

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,  # noqa: ARG002  # nothing is made beforehand
        *,
        exact: bool = True,  # noqa: ARG002  # as above
    ) -> Callable[[], Any]:
        """Each run gets fresh arrays, as an op may write into its own."""
        return lambda: self._out(function(*map(self.into, inputs)))

    def attempt(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> None:
        """Runs the call."""
        with self.running(device, "native"):
            self.prepare(function, inputs, key)()

    def program(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> str:
        """There is none: calls run as they are made."""
        raise NotImplementedError

    def _out(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(self._out(part) for part in value)
        return self.out(value)
