"""Checks of an adapter, made before any row is tested.

An adapter that does not work would fail thousands of tests. These checks name the broken part
instead, so that the user can tell a broken adapter from an op that is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.adapters.base import Adapter, load, resolve
from conformance.cases.table import Sample, samples

#: Arrays of every dtype that samples use.
ARRAYS = (
    np.array([[1.5, -0.0], [np.inf, 3e-9]], np.float32),
    np.array(-2.5, bfloat16),
    np.array([1 + 2j, -3j], np.complex64),
    np.array([-1, 2**31 - 1], np.int32),
    np.array([True, False]),
    np.zeros((0, 3), np.float32),
)
#: Ops of which one is tried, by the first sample in the table that has a gradient.
OPS = ("cumsum", "index_select", "nn.functional.pad", "repeat_interleave")
_NO_OP = "no_op_has_this_name"


class BrokenError(Exception):
    """A part of an adapter does not work. The message names the part."""


def check(name: str) -> Adapter:
    """Loads the adapter of a module, with the mode off, and checks each part that the suite uses.

    Raises BrokenError where a part does not work.
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


def _known_sample(adapter: Adapter) -> Sample:
    for op in OPS:
        if resolve(adapter.namespace, op) is not None:
            return next(sample for sample in samples(op) if sample.wrt is not None)
    raise ValueError(f"the namespace has none of {', '.join(OPS)}; the checks need one of them")


def _right(direction: spec.Direction, adapter: Adapter) -> None:
    sample = _known_sample(adapter)
    with adapter.mode(False), adapter.running(adapter.devices()[0], "native"):
        inputs = sample.inputs(direction)
        result = adapter.prepare(sample.function(adapter, direction), inputs)()
    sample.judge(direction, result)


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
    "value": functools.partial(_right, "forward"),
    "gradient": functools.partial(_right, "backward"),
}
