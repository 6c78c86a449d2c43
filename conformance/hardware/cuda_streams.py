"""Work on CUDA streams other than JAX's, by calls of the CUDA driver.

JAX runs its programs on one stream, so they never overlap. Fills and copies on other streams do
overlap with a program: they take multiprocessors and memory bandwidth away while it runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

#: The devices of the spec that this driver serves.
DEVICES = ("cuda",)
_LIBRARY = "libcuda.so.1"
#: The number of bytes of each of the two buffers of a stream.
BUFFER_BYTES = 32 * 2**20
_STREAMS = 2
#: The fills and copies that one step starts on each stream.
_BURST = 32
_NON_BLOCKING = 1

_Int, _Size, _Address = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
_Handle, _Word = ctypes.c_void_p, ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_Word,),
    "cuDeviceGet": (ctypes.POINTER(_Int), _Int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_Handle), _Int),
    "cuCtxSetCurrent": (_Handle,),
    "cuStreamCreate": (ctypes.POINTER(_Handle), _Word),
    "cuMemAlloc_v2": (ctypes.POINTER(_Address), _Size),
    "cuMemsetD32Async": (_Address, _Word, _Size, _Handle),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, _Size, _Handle),
    "cuStreamSynchronize": (_Handle,),
}


class DriverError(RuntimeError):
    """The driver refused a call."""


class Driver:
    """The CUDA driver, or a library that stands in for it.

    Raises:
        OSError: There is no driver.
    """

    def __init__(self, library: Any = None) -> None:
        # JAX has already loaded the driver if it has such a device.
        self._library = ctypes.CDLL(_LIBRARY) if library is None else library

    def __call__(self, name: str, *arguments: Any) -> None:
        """Calls the function of the driver that has this name.

        Raises:
            DriverError: Its status is not 0.
        """
        function = getattr(self._library, name)
        function.argtypes, function.restype = _SIGNATURES[name], ctypes.c_int
        status = function(*arguments)
        if status != 0:
            raise DriverError(f"{name} gave the status {status}")


def stream_work(ordinal: int, library: Any = None) -> Callable[[], Callable[[], None]]:
    """Returns the ``begin`` of a kind of work on the device with this number.

    The buffers and streams live until the process ends: to free them would wait for all work of
    the device.
    """

    def begin() -> Callable[[], None]:
        driver = Driver(library)
        device, context = _Int(), _Handle()
        driver("cuInit", 0)
        driver("cuDeviceGet", ctypes.byref(device), ordinal)
        # JAX uses the primary context too. Work of different contexts would not overlap.
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        driver("cuCtxSetCurrent", context)
        streams = [_new_stream(driver) for _ in range(_STREAMS)]
        rng = np.random.default_rng(0)

        def step() -> None:
            for stream, first, second in streams:
                for size in rng.integers(1, BUFFER_BYTES // 4, _BURST).tolist():
                    driver("cuMemsetD32Async", first, size, size, stream)
                    driver("cuMemcpyDtoDAsync_v2", second, first, size * 4, stream)
            for stream, *_ in streams:
                driver("cuStreamSynchronize", stream)

        return step

    return begin


def _new_stream(driver: Driver) -> tuple[Any, Any, Any]:
    """Returns a new stream and its two buffers."""
    stream, first, second = _Handle(), _Address(), _Address()
    driver("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    driver("cuMemAlloc_v2", ctypes.byref(first), BUFFER_BYTES)
    driver("cuMemAlloc_v2", ctypes.byref(second), BUFFER_BYTES)
    return stream, first, second
