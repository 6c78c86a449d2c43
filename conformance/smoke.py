"""Whether an adapter works at all, tried before the rows are: broken is not the same as wrong."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.implementation import Implementation, load, resolve

#: Arrays of every dtype that samples use.
ARRAYS = (
    np.array([[1.5, -0.0], [np.inf, 3e-9]], np.float32),
    np.array(-2.5, bfloat16),
    np.array([1 + 2j, -3j], np.complex64),
    np.array([-1, 2**31 - 1], np.int32),
    np.array([True, False]),
    np.zeros((0, 3), np.float32),
)
#: Calls on floats [3] whose value and gradient by it are known: by op, what of it, and these two.
CALLS: dict[str, tuple[Callable[[Any, Any], Any], list[float], list[float]]] = {
    "cumsum": (lambda op, x: op(x, 0), [1, 3, 7], [111, 110, 100]),
    "sort": (lambda op, x: op(x, 0, True)[0], [4, 2, 1], [100, 10, 1]),
    "nn.functional.pad": (lambda op, x: op(x, (1, 0)), [0, 1, 2, 4], [10, 100, 1000]),
    "repeat_interleave": (lambda op, x: op(x, 2), [1, 1, 2, 2, 4, 4], [11, 1100, 110000]),
}
_NO_OP = "no_op_has_this_name"


class BrokenError(Exception):
    """A part of an adapter does not work; the message names the part."""


def check(name: str) -> Implementation:
    """Loads an implementation and tries each part that the suite asks for.

    Returns:
        The implementation, with its mode off.

    Raises:
        BrokenError: A part does not work.
    """
    with _part("import"):
        tried = load(name)
    for part, attempt in _PARTS.items():
        with _part(part):
            attempt(tried)
    return tried


@contextlib.contextmanager
def _part(part: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = str(error).strip() or f"{place.filename}, line {place.lineno}: {place.line}"
        raise BrokenError(f"{part}: {type(error).__name__}: {said}") from error


def _devices(tried: Implementation) -> None:
    there = tuple(tried.devices())
    if not there or set(there) - set(spec.DEVICES):
        raise ValueError(f"devices() gave {there}; allowed are one or more of {spec.DEVICES}")
    if "native" not in tried.ways(there[0]):
        raise ValueError(f"ways({there[0]!r}) gave {tried.ways(there[0])}; 'native' must be there")


def _versions(tried: Implementation) -> None:
    from packaging.version import Version  # noqa: PLC0415  # pytest brings it

    versions = dict(tried.versions())
    if not versions:
        raise ValueError("versions() is empty; it has to say what is tried")
    for version in versions.values():
        Version(version)


def _mode(tried: Implementation) -> None:
    for mode in (True, False):
        tried.set_mode(mode)
        _read_back(tried, mode, f"use_deterministic_algorithms({mode})")
    profiles = spec.load().profiles
    for profile in [p for p in profiles if not tried.release or profiles[p].release]:
        for warn_only in (False, True):
            with tried.mode(True, profile=profile, warn_only=warn_only):
                _read_back(tried, True, f"deterministic(True, profile={profile!r})")
                with tried.mode(False):
                    _read_back(tried, False, "deterministic(False)")
                _read_back(tried, True, "leaving deterministic(False)")
            _read_back(tried, False, "leaving deterministic(True)")


def _read_back(tried: Implementation, wanted: bool, after: str) -> None:
    if tried.enabled() is not wanted:
        raise ValueError(f"after {after} the mode reads {tried.enabled()}")


def _arrays(tried: Implementation) -> None:
    with tried.mode(False), tried.running(tried.devices()[0], "native"):
        for array in ARRAYS:
            found = tried.prepare(lambda x: x, (array,))()
            same = isinstance(found, np.ndarray) and found.dtype == array.dtype
            if not same or found.shape != array.shape or found.tobytes() != array.tobytes():
                raise ValueError(f"{array!r} came back as {found!r}")


def _known(tried: Implementation) -> tuple[Any, list[float], list[float]]:
    for op, (of, value, gradient) in CALLS.items():
        function = resolve(tried.namespace, op)
        if function is not None:
            return functools.partial(of, function), value, gradient
    raise ValueError(f"the namespace has none of {', '.join(CALLS)}, of which one is tried first")


def _value(tried: Implementation) -> None:
    call, value, _ = _known(tried)
    with tried.mode(False), tried.running(tried.devices()[0], "native"):
        found = tried.prepare(call, (np.array([1, 2, 4], np.float32),))()
    np.testing.assert_allclose(found, value)


def _gradient(tried: Implementation) -> None:
    call, value, gradient = _known(tried)
    x = np.array([1, 2, 4], np.float32)
    cotangent = 10.0 ** np.arange(len(value), dtype=np.float32)
    with tried.mode(False), tried.running(tried.devices()[0], "native"):
        found = tried.prepare(tried.pullback(call, 0), (cotangent, x))()
    np.testing.assert_allclose(found, gradient)


def _missing(tried: Implementation) -> None:
    for op in (_NO_OP, f"nn.functional.{_NO_OP}"):
        if resolve(tried.namespace, op) is not None:
            raise ValueError(f"the namespace says that it has {op!r}, as it would of any name")


_PARTS: dict[str, Callable[[Implementation], None]] = {
    "devices": _devices,
    "versions": _versions,
    "mode": _mode,
    "missing op": _missing,
    "arrays": _arrays,
    "value": _value,
    "gradient": _gradient,
}
