"""Work on streams of a CUDA device that are not JAX's, asked of the driver itself.

JAX has one stream for its programs, on which they never overlap. Fills and copies on others do, and
take multiprocessors and memory bandwidth away from a program while it runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

_LIBRARY = "libcuda.so.1"
#: Bytes of each of the two buffers of a stream.
BYTES = 32 * 2**20
_STREAMS = 2
#: Fills and copies that are asked for at a time.
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
    """The calls of the driver that are needed."""

    def __init__(self, library: Any = None) -> None:
        """Loads the driver, which JAX has loaded already where it has such a device.

        Raises:
            OSError: There is none.
        """
        self._library = ctypes.CDLL(_LIBRARY) if library is None else library

    def __call__(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver.

        Raises:
            DriverError: Its status is not 0.
        """
        function = getattr(self._library, name)
        function.argtypes, function.restype = _SIGNATURES[name], ctypes.c_int
        status = function(*arguments)
        if status != 0:
            raise DriverError(f"{name} gave the status {status}")


def busy(ordinal: int, library: Any = None) -> Callable[[], Callable[[], None]]:
    """Work for ``Pressure`` on the device of that number.

    What ``begin`` takes is kept until the process ends: freeing would wait for the whole device.
    """

    def begin() -> Callable[[], None]:
        driver = Driver(library)
        device, context = _Int(), _Handle()
        driver("cuInit", 0)
        driver("cuDeviceGet", ctypes.byref(device), ordinal)
        # The context that JAX is in as well: what is in another one would not run beside.
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        driver("cuCtxSetCurrent", context)
        lanes = [_lane(driver) for _ in range(_STREAMS)]
        rng = np.random.default_rng(0)

        def step() -> None:
            for stream, first, second in lanes:
                for size in rng.integers(1, BYTES // 4, _BURST).tolist():
                    driver("cuMemsetD32Async", first, size, size, stream)
                    driver("cuMemcpyDtoDAsync_v2", second, first, size * 4, stream)
            for stream, *_ in lanes:
                driver("cuStreamSynchronize", stream)

        return step

    return begin


def _lane(driver: Driver) -> tuple[Any, Any, Any]:
    stream, first, second = _Handle(), _Address(), _Address()
    driver("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
    driver("cuMemAlloc_v2", ctypes.byref(first), BYTES)
    driver("cuMemAlloc_v2", ctypes.byref(second), BYTES)
    return stream, first, second
