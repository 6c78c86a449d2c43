"""The adapter of a namespace of functions of JAX arrays.

Such functions can be lowered for a device that is absent and compiled once for many checks, so
they need no adapter of their own.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from conformance.adapters import _jax_programs
from conformance.adapters.base import Adapter


class JaxNamespace(Adapter):
    """A namespace whose functions JAX can lower and compile.

    Args:
        namespace: A module or object that has ops by dotted name.
    """

    keeps_orders = True
    can_lower = True
    keeps_promises = True

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.name = getattr(namespace, "__name__", type(namespace).__name__)

    def into(self, array: Any) -> Any:
        return jax.numpy.asarray(array)

    def gradient(self, function: Callable[[Any], Any], at: Any, cotangent: Any) -> Any:
        return jax.vjp(function, at)[1](cotangent)[0]

    def versions(self) -> Mapping[str, str]:
        return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}

    def devices(self) -> Sequence[str]:
        return (_jax_programs.device_of_process(),)

    def hardware(self) -> Mapping[str, str]:
        return {"platform": jax.default_backend(), "device": jax.devices()[0].device_kind}

    def repeats(self, device: str) -> int:
        """Returns the default number of runs whose bits are compared.

        On a CPU a compiled program always adds in the same order, so two runs suffice.
        """
        return 2 if device == "cpu" else 20

    def prepare(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,
        *,
        exact: bool = True,
    ) -> Callable[[], Any]:
        return _jax_programs.prepare(function, tuple(inputs), key, exact=exact)

    def attempt(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> None:
        self.program(function, inputs, device, key)

    def program(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        device: str,
        key: Hashable = None,
    ) -> str:
        return _jax_programs.lower(function, tuple(inputs), device, key)
