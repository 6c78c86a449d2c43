"""The interface between the suite and the implementation under test.

The suite calls ops, sets the mode and compares arrays only through an adapter, so that it can test
any library. A module offers its adapter as ``IMPLEMENTATION``: an object of a class derived from
``Adapter``. With an adapter of NumPy, whose ``into`` is ``np.array`` and whose namespace has
``cumsum``, the suite gets::

    call = lambda x: adapter.namespace.cumsum(x, 0)
    x = np.float32([1, 2, 4])

    with adapter.mode(True):
        adapter.prepare(call, [x])()                 [1. 3. 7.]
    adapter.gradient(call, adapter.into(x), np.float32([1, 10, 100]))
                                                     [111. 110. 100.]
    adapter.enabled()                                False: the scope of the mode has ended
    adapter.versions()                               {"small": "1.2"}
"""

from __future__ import annotations

import abc
import contextlib
import importlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Adapter(abc.ABC):
    """An implementation under test: its ops, its mode, its arrays and its gradients.

    A derived class sets ``name`` and ``namespace`` and defines ``into``, ``gradient`` and
    ``versions``. It overrides the rest where the implementation differs from the defaults.

    The namespace has the functions that set the mode, with PyTorch's names and the arguments of
    ``impl``: ``use_deterministic_algorithms``, ``are_deterministic_algorithms_enabled`` and
    ``deterministic``.

    Attributes:
        name: The name of the implementation in reports.
        namespace: The ops by dotted name. Samples are called with it.
        release: The PyTorch release that the implementation behaves as, such as ``2.13``. None if
            the implementation has profiles.
        of_this_project: Whether the implementation is ``impl``, which asks the spec about every
            call, names rows in its alerts, and has the values of ``Sample.choices``.
        keeps_orders: Whether the implementation adds in the orders of the spec, so that the spec
            determines every bit. Otherwise the suite compares the bits of two runs.
        can_lower: Whether ``program`` returns the program of a call for any device.
        keeps_promises: Whether the namespace has the generators and data loaders of rows of the
            kinds ``random`` and ``loader``.
        expectations: The expectations to use where the command line names no file.
        device: The device that calls run on. ``running`` sets it.
    """

    name: str
    namespace: Any
    release: str | None = None
    of_this_project: bool = False
    keeps_orders: bool = False
    can_lower: bool = False
    keeps_promises: bool = False
    expectations: Path | None = None
    device: str = "cpu"

    @abc.abstractmethod
    def into(self, array: Any) -> Any:
        """Returns a fresh array of the implementation, on ``self.device``.

        Args:
            array: A NumPy array of any shape, of float32, bfloat16 (of ``ml_dtypes``), complex64,
                int32 or bool.
        """

    @abc.abstractmethod
    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        """Returns the gradient of a function at an array.

        Args:
            function: Takes an array of the implementation and returns one.
            at: The array.
            cotangent: An array of the shape of the result.
        """

    @abc.abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Returns the versions under test, for example ``{"torch": "2.13.0"}``.

        Conditions of expectations use these names.
        """

    def out(self, array: Any) -> Any:
        """Returns the NumPy array with the dtype, shape and values of ``array``."""
        return np.asarray(array)

    def devices(self) -> Sequence[str]:
        """Returns the devices of the spec that calls can run on here, the default one first."""
        return ("cpu",)

    def hardware(self) -> Mapping[str, str]:
        """Returns the ``platform`` and the ``device`` that a report of this process names."""
        device = self.devices()[0]
        return {"platform": device, "device": device}

    def lowerings(self, device: str) -> Sequence[str]:
        """Returns how this process can run what ``device`` would run.

        ``native`` is the device itself. Every other name is a stand-in.
        """
        return ("native",) if device in self.devices() else ()

    def has_kernels(self) -> bool:
        """Returns whether kernels do what XLA for a GPU would do in a loop over updates."""
        return False

    @contextlib.contextmanager
    def running(self, device: str, lowering: str) -> Iterator[None]:  # noqa: ARG002  # only native
        """Runs the calls of a scope as on ``device``, by one of its lowerings."""
        device_before, self.device = self.device, device
        try:
            yield
        finally:
            self.device = device_before

    def repeats(self, device: str) -> int:
        """Returns the default number of runs whose bits are compared.

        On a CPU only threads can change an order, so a few runs suffice.
        """
        return 3 if device == "cpu" else 20

    def mode(
        self, mode: bool = True, *, profile: str | None = None, warn_only: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """Returns a scope with the mode on or off."""
        scope: contextlib.AbstractContextManager[None] = self.namespace.deterministic(
            mode, warn_only=warn_only, profile=profile
        )
        return scope

    def set_mode(self, mode: bool) -> None:
        """Turns the mode on or off, outside any scope."""
        self.namespace.use_deterministic_algorithms(mode)

    def enabled(self) -> bool:
        """Returns whether the implementation reports that its mode is on."""
        return bool(self.namespace.are_deterministic_algorithms_enabled())

    def gradient_function(self, call: Callable[..., Any], position: int) -> Callable[..., Any]:
        """Returns the function from a cotangent and the arguments of ``call`` to a gradient.

        Args:
            call: Takes arrays of the implementation and returns one.
            position: The position of the argument to differentiate with respect to.
        """

        def gradient(cotangent: Any, *arrays: Any) -> Any:
            def of_argument(argument: Any) -> Any:
                return call(*arrays[:position], argument, *arrays[position + 1 :])

            return self.gradient(of_argument, arrays[position], cotangent)

        return gradient

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,  # noqa: ARG002  # for adapters that compile
        *,
        exact: bool = True,  # noqa: ARG002  # as above
    ) -> Callable[[], Any]:
        """Returns a function that runs a call once, under the mode that holds now.

        By default each run gets fresh arrays, because an op may write into its arguments.

        Args:
            function: Takes arrays of the implementation and returns one, or a tuple of them.
            inputs: NumPy arrays.
            key: Identifies the function and the inputs, so that an adapter can reuse what it
                compiled for them. None forbids reuse.
            exact: Whether the bits of the result count. Otherwise an adapter may compile the call
                in less time.

        Returns:
            A function without arguments that returns NumPy arrays.
        """
        return lambda: self._arrays(function(*map(self.into, inputs)))

    def attempt(
        self, function: Callable[..., Any], inputs: Sequence[Any], device: str, key: Hashable = None
    ) -> None:
        """Carries a call as far as it takes to raise or warn.

        An adapter that can lower does so for a device that may be absent. By default the call
        runs.
        """
        with self.running(device, "native"):
            self.prepare(function, inputs, key)()

    def program(
        self, function: Callable[..., Any], inputs: Sequence[Any], device: str, key: Hashable = None
    ) -> str:
        """Returns the program of a call, lowered for ``device``.

        Only adapters with ``can_lower`` have programs.
        """
        raise NotImplementedError

    def digests_by_schedule(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,
        *,
        exact: bool = True,
    ) -> Sequence[str]:
        """Runs the kernels of a call under every schedule and returns the digest of each result.

        Only the adapter of this project has schedules.
        """
        raise NotImplementedError

    def _arrays(self, result: Any) -> Any:
        if isinstance(result, (tuple, list)):
            return tuple(self._arrays(part) for part in result)
        return self.out(result)


def resolve(namespace: Any, op: str) -> Any:
    """Returns the function with a dotted name in a namespace, or None."""
    for part in op.split("."):
        namespace = getattr(namespace, part, None)
    return namespace if callable(namespace) else None


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
    from conformance.adapters.jax import JaxNamespace, Samebits  # noqa: PLC0415  # as above

    return Samebits() if namespace is impl else JaxNamespace(namespace)
