"""Checks of an adapter, made before any row is tested.

An adapter that does not work would fail thousands of tests. These checks name the broken part
instead, so that the user can tell a broken adapter from an op that is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.adapters.base import Adapter, resolve
from conformance.adapters.loading import load

#: Arrays of every dtype that samples use.
ARRAYS = (
    np.array([[1.5, -0.0], [np.inf, 3e-9]], np.float32),
    np.array(-2.5, bfloat16),
    np.array([1 + 2j, -3j], np.complex64),
    np.array([-1, 2**31 - 1], np.int32),
    np.array([True, False]),
    np.zeros((0, 3), np.float32),
)
#: For each op: a call with floats of shape [3], its value for [1, 2, 4], and its gradient for the
#: cotangent [1, 10, 100, ...].
CALLS: dict[str, tuple[Callable[[Any, Any], Any], list[float], list[float]]] = {
    "cumsum": (lambda op, x: op(x, 0), [1, 3, 7], [111, 110, 100]),
    "sort": (lambda op, x: op(x, 0, True)[0], [4, 2, 1], [100, 10, 1]),
    "nn.functional.pad": (lambda op, x: op(x, (1, 0)), [0, 1, 2, 4], [10, 100, 1000]),
    "repeat_interleave": (lambda op, x: op(x, 2), [1, 1, 2, 2, 4, 4], [11, 1100, 110000]),
}
_NO_OP = "no_op_has_this_name"


class BrokenError(Exception):
    """A part of an adapter does not work. The message names the part."""


def check(name: str) -> Adapter:
    """Loads the adapter of a module and checks each part that the suite uses.

    Returns:
        The adapter, with the mode off.

    Raises:
        BrokenError: A part does not work.
    """
    with _part("import"):
        adapter = load(name)
    for part, check_part in _PARTS.items():
        with _part(part):
            check_part(adapter)
    return adapter


@contextlib.contextmanager
def _part(part: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = str(error).strip() or f"{frame.filename}, line {frame.lineno}: {frame.line}"
        raise BrokenError(f"{part}: {type(error).__name__}: {message}") from error


def _devices(adapter: Adapter) -> None:
    devices = tuple(adapter.devices())
    if not devices or set(devices) - set(spec.DEVICES):
        raise ValueError(f"devices() gave {devices}; allowed are one or more of {spec.DEVICES}")
    lowerings = adapter.lowerings(devices[0])
    if "native" not in lowerings:
        raise ValueError(f"lowerings({devices[0]!r}) gave {lowerings}; 'native' must be there")


def _versions(adapter: Adapter) -> None:
    from packaging.version import Version  # noqa: PLC0415  # pytest brings it

    versions = dict(adapter.versions())
    if not versions:
        raise ValueError("versions() is empty; it has to give the versions under test")
    for version in versions.values():
        Version(version)


def _mode(adapter: Adapter) -> None:
    for mode in (True, False):
        adapter.set_mode(mode)
        _read_back(adapter, mode, f"use_deterministic_algorithms({mode})")
    profiles = spec.load().profiles
    for profile in [p for p in profiles if not adapter.release or profiles[p].release]:
        for warn_only in (False, True):
            with adapter.mode(True, profile=profile, warn_only=warn_only):
                _read_back(adapter, True, f"deterministic(True, profile={profile!r})")
                with adapter.mode(False):
                    _read_back(adapter, False, "deterministic(False)")
                _read_back(adapter, True, "leaving deterministic(False)")
            _read_back(adapter, False, "leaving deterministic(True)")


def _read_back(adapter: Adapter, mode: bool, after: str) -> None:
    if adapter.enabled() is not mode:
        raise ValueError(f"after {after} the mode reads {adapter.enabled()}")


def _arrays(adapter: Adapter) -> None:
    with adapter.mode(False), adapter.running(adapter.devices()[0], "native"):
        for array in ARRAYS:
            result = adapter.prepare(lambda x: x, (array,))()
            same = isinstance(result, np.ndarray) and result.dtype == array.dtype
            if not same or result.shape != array.shape or result.tobytes() != array.tobytes():
                raise ValueError(f"{array!r} came back as {result!r}")


def _known_call(adapter: Adapter) -> tuple[Any, list[float], list[float]]:
    for op, (call, value, gradient) in CALLS.items():
        function = resolve(adapter.namespace, op)
        if function is not None:
            return functools.partial(call, function), value, gradient
    raise ValueError(f"the namespace has none of {', '.join(CALLS)}; the checks need one of them")


def _value(adapter: Adapter) -> None:
    call, value, _ = _known_call(adapter)
    with adapter.mode(False), adapter.running(adapter.devices()[0], "native"):
        result = adapter.prepare(call, (np.array([1, 2, 4], np.float32),))()
    np.testing.assert_allclose(result, value)


def _gradient(adapter: Adapter) -> None:
    call, value, gradient = _known_call(adapter)
    x = np.array([1, 2, 4], np.float32)
    cotangent = 10.0 ** np.arange(len(value), dtype=np.float32)
    with adapter.mode(False), adapter.running(adapter.devices()[0], "native"):
        result = adapter.prepare(adapter.gradient_function(call, 0), (cotangent, x))()
    np.testing.assert_allclose(result, gradient)


def _missing(adapter: Adapter) -> None:
    for op in (_NO_OP, f"nn.functional.{_NO_OP}"):
        if resolve(adapter.namespace, op) is not None:
            raise ValueError(f"the namespace has {op!r}, so it seems to have every name")


_PARTS: dict[str, Callable[[Adapter], None]] = {
    "devices": _devices,
    "versions": _versions,
    "mode": _mode,
    "missing op": _missing,
    "arrays": _arrays,
    "value": _value,
    "gradient": _gradient,
}
