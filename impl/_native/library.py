"""The shared library of the engine ``native``: where it is, and its calls.

``pip install`` builds it where a C++ compiler is found, and leaves it out elsewhere. XLA then
computes everything, with the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib

import jax

#: The folders that may hold the library: this one, and the one of the platform-dependent files.
_NAMES = ("libsamebits_cpu.so", "libsamebits_cpu.dylib", "samebits_cpu.dll")
#: The calls of the library; XLA knows each by this name.
CALLS = (
    *("samebits_product", "samebits_product_bounds", "samebits_product_digits"),
    *("samebits_reduce", "samebits_reduce_bounds", "samebits_reduce_digits"),
    *("samebits_running", "samebits_window", "samebits_pool_gradient", "samebits_parts"),
    *("samebits_scatter", "samebits_scatter_bounds", "samebits_scatter_digits"),
    *("samebits_decide", "samebits_finish"),
)


@functools.cache
def path() -> pathlib.Path | None:
    """Returns the file of the library; None if it was not built."""
    folder = pathlib.Path(__file__).parent
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


@functools.cache
def is_available() -> bool:
    """Returns whether this process has the library; loads it and registers its calls."""
    file = path()
    if file is None:
        return False
    library = ctypes.cdll.LoadLibrary(str(file))
    for name in CALLS:
        call = getattr(library, name, None)
        if call is not None:
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(call), platform="cpu")
    return True
