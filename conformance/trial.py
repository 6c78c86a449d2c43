"""Running a call under a mode, on a device that is there or that the CPU stands in for."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import jax
import numpy as np

import impl

#: How the CPU stands in for a device whose lowerings it does not run by itself.
STAND_INS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "cpu": {"native": {}},
    "cuda": {
        "kernel": {"lowering": "kernel"},
        "kernel, permuted": {"lowering": "kernel", "seed": 1},
        "xla": {"lowering": "xla"},
    },
}


def here() -> str:
    """The device of the spec that JAX computes on in this process."""
    return "cpu" if jax.default_backend() == "cpu" else "cuda"


def lowerings(namespace: ModuleType, device: str) -> list[str]:
    """The ways in which this process can run what ``device`` would."""
    if device == here():
        return ["native"]
    # Only our own implementation can be run by a stand-in.
    return list(STAND_INS[device]) if namespace is impl and here() == "cpu" else []


@contextlib.contextmanager
def running(device: str, lowering: str) -> Iterator[None]:
    """Inside, calls run as on ``device``, in the way named by ``lowering``."""
    if lowering == "native":
        yield
    else:
        with impl.testing.emulate(device, **STAND_INS[device][lowering]):
            yield


_compiled: dict[str, Any] = {}


def prepare(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """Compiles a call, under the mode that holds; what it returns runs it, to NumPy arrays.

    Profiles that say the same of a call give the same program, which is compiled once.
    """
    arrays = tuple(map(jax.numpy.asarray, inputs))
    lowered = jax.jit(function).lower(*arrays)
    text = lowered.as_text()
    if text not in _compiled:
        _compiled[text] = lowered.compile()
    compiled = _compiled[text]
    return lambda: jax.tree.map(np.asarray, compiled(*arrays))


def bits(result: Any) -> str:
    """SHA-256 of every bit of a result, its dtypes and its shapes."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(result):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def lower(function: Callable[..., Any], inputs: tuple[Any, ...], device: str) -> str:
    """The program lowered for ``device``, which need not be there."""
    arrays = tuple(map(jax.numpy.asarray, inputs))
    if device == here():
        return jax.jit(function).lower(*arrays).as_text()
    return impl.testing.lower(function, *arrays, platform=device).as_text()


def alerts(function: Callable[..., Any], inputs: tuple[Any, ...], device: str) -> list[str]:
    """What is said, as warnings, when the program is lowered for ``device``."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lower(function, inputs, device)
    return [str(one.message) for one in said if one.category is UserWarning]


def resolve(namespace: Any, op: str) -> Any:
    """The function of that dotted name in a namespace, or None."""
    for part in op.split("."):
        namespace = getattr(namespace, part, None)
    return namespace if callable(namespace) else None
