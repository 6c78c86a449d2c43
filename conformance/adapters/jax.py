"""The adapter of a namespace of functions of JAX arrays, and of this project's, ``impl``.

Such functions can be lowered for a device that is absent and compiled once for many checks, so
they need no adapter of their own. For ``impl``, a CPU can stand in for a GPU: it interprets the
kernels, or runs the operations of XLA that replace them. The kernels can also be run under
adversarial schedules.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax

import impl
import spec
from conformance import bits
from conformance.adapters import _jax_programs
from conformance.adapters.base import Adapter
from impl._kernels import pallas


class JaxNamespace(Adapter):
    """A namespace, a module or object with ops by dotted name, that JAX can lower and compile."""

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
        self, function: Callable[..., Any], inputs: Sequence[Any], device: str, key: Hashable = None
    ) -> None:
        self.program(function, inputs, device, key)

    def program(
        self, function: Callable[..., Any], inputs: Sequence[Any], device: str, key: Hashable = None
    ) -> str:
        return _jax_programs.lower(function, tuple(inputs), device, key)


#: The seed that interpreted kernels read when they run.
SEED = impl.testing.Seed()
#: The schedules under which kernels run. Schedule 0 is the order of the program ids.
SCHEDULES = range(21)
#: For each device, the arguments of ``impl.testing.emulate`` by the name of the stand-in.
STAND_INS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    device.name: {
        name: {"lowering": name} | ({"seed": SEED} if name == "kernel" else {})
        for name in device.stand_ins
    }
    for device in spec.load().devices.values()
}


class Samebits(JaxNamespace):
    """The adapter of ``impl``."""

    of_this_project = True
    expectations = Path(__file__).parents[1] / "expectations.toml"

    def __init__(self) -> None:
        super().__init__(impl)

    def has_kernels(self) -> bool:
        return pallas.reason_missing() is None

    def set_mode(self, mode: bool) -> None:
        # The suite also computes with the mode off, so XLA must not get the mode's flags, which are
        # added when it is turned on. To keep the environment takes as long as a short test.
        unchanged = mock.patch.dict(os.environ) if mode else contextlib.nullcontext()
        with unchanged, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # It warns of missing flags on a GPU.
            super().set_mode(mode)

    def lowerings(self, device: str) -> Sequence[str]:
        device_here = _jax_programs.device_of_process()
        if device == device_here:
            return ("native",)
        return tuple(STAND_INS[device]) if device_here == "cpu" else ()

    @contextlib.contextmanager
    def running(self, device: str, lowering: str) -> Iterator[None]:
        if lowering == "native":
            yield
        else:
            with impl.testing.emulate(device, **STAND_INS[device][lowering]):
                yield

    def digests_by_schedule(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        key: Hashable = None,
        *,
        exact: bool = True,
    ) -> Sequence[str]:
        """Runs the kernels of a call under every schedule and returns the digest of each result.

        Call it in a scope of the stand-in ``kernel``, which reads ``SEED``. Calls with the same
        program share one result.
        """

        def run() -> tuple[str, ...]:
            program = self.prepare(function, inputs, key, exact=exact)
            digests = []
            try:
                for SEED.value in SCHEDULES:
                    digests.append(bits.digest(program()))
            finally:
                SEED.value = SCHEDULES[0]
            return tuple(digests)

        keys = None if key is None else (key, exact, "scheduled")
        digests: tuple[str, ...] = _jax_programs.remembered(
            run, _jax_programs.device_of_process(), keys
        )
        return digests
