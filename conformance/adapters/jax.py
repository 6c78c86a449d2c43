"""Namespaces of functions of JAX arrays, and among them ``impl``, which can do more."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import impl
from conformance import trial
from conformance.adapters.base import Adapter


class JaxNamespace(Adapter):
    """A namespace whose functions can be compiled and lowered by JAX."""

    keeps_orders = True
    can_lower = True
    keeps_promises = True

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.name = getattr(namespace, "__name__", type(namespace).__name__)

    def into(self, array: Any) -> Any:
        """As JAX takes it."""
        return jax.numpy.asarray(array)

    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        """By ``jax.vjp``."""
        return jax.vjp(function, at)[1](cotangent)[0]

    def versions(self) -> Mapping[str, str]:
        """Those of jax and jaxlib."""
        return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}

    def devices(self) -> Sequence[str]:
        """What JAX computes on in this process."""
        return (trial.here(),)

    def ways(self, device: str) -> Sequence[str]:
        """As it is, or by stand-ins for ``impl``."""
        return trial.lowerings(self.namespace, device)

    def running(self, device: str, way: str) -> contextlib.AbstractContextManager[None]:
        """Where JAX computes, or by a stand-in."""
        return trial.running(device, way)

    def repeats(self, device: str) -> int:
        """Two on a CPU, where a program keeps its order."""
        return 2 if device == "cpu" else 20

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,
        *,
        exact: bool = True,
    ) -> Callable[[], Any]:
        """Compiled, once for all calls that give the same program."""
        return trial.prepare(function, tuple(inputs), key, exact=exact)

    def attempt(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> None:
        """Lowers the call for ``device``, which need not be there."""
        trial.lower(function, tuple(inputs), device, key)

    def program(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> str:
        """As ``attempt``."""
        return trial.lower(function, tuple(inputs), device, key)


class Impl(JaxNamespace):
    """This project's implementation."""

    own = True
    expectations = Path(__file__).parents[1] / "expectations.toml"

    def __init__(self) -> None:
        super().__init__(impl)


def of(namespace: Any) -> JaxNamespace:
    """The adapter of a namespace of functions of JAX arrays."""
    return Impl() if namespace is impl else JaxNamespace(namespace)
