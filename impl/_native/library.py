"""The shared library of the engine ``native``: where it is, and its calls.

``pip install`` builds it where a C++ compiler is found, and leaves it out elsewhere. XLA then
computes everything, with the same bits. So does a process that the library does not fit: it was
built for another processor, from other sources, or for a newer XLA.

The environment variable ``SAMEBITS_NATIVE`` is "off" to do without the library, or names a file to
take in its stead, such as one with the checks of a sanitizer::

    SAMEBITS_NATIVE=off python train.py
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import re
import warnings

import jax

VARIABLE = "SAMEBITS_NATIVE"
_OFF = ("off", "0")
_FOLDER = pathlib.Path(__file__).parent
_NAMES = ("libsamebits_cpu.so", "libsamebits_cpu.dylib", "samebits_cpu.dll")
#: The calls of the library; XLA knows each by this name.
CALLS = (
    *("samebits_product", "samebits_product_bounds", "samebits_product_digits"),
    *("samebits_reduce", "samebits_reduce_bounds", "samebits_reduce_digits"),
    *("samebits_running", "samebits_window", "samebits_pool", "samebits_pool_gradient"),
    *("samebits_scatter", "samebits_scatter_bounds", "samebits_scatter_digits"),
    *("samebits_function", "samebits_decide", "samebits_positions", "samebits_finish"),
    *("samebits_round", "samebits_merge", "samebits_counted", "samebits_parts"),
    *("samebits_product_state", "samebits_reduce_state", "samebits_scatter_state"),
)


#: Why the library is missing, once this process was warned of it.
_warned: set[str] = set()


class _UnfitError(Exception):
    """The library cannot be used."""


@functools.cache
def path() -> pathlib.Path | None:
    """Returns the file of the library; None if it was not built."""
    chosen = os.environ.get(VARIABLE)
    if chosen and chosen not in _OFF:
        return pathlib.Path(chosen).absolute()
    return next((_FOLDER / name for name in _NAMES if (_FOLDER / name).is_file()), None)


def is_available() -> bool:
    """Returns whether this process has the library; loads it and registers its calls."""
    return problem() is None


@functools.cache
def problem() -> str | None:
    """Returns why this process has no library, as a part of a sentence; None if it has one."""
    try:
        library = _loaded()
    except _UnfitError as error:
        return str(error)
    for name in CALLS:
        call = jax.ffi.pycapsule(getattr(library, name))
        jax.ffi.register_ffi_target(name, call, platform="cpu")
    return None


def warn_if_missing() -> None:
    """Warns once in a process that has no library, unless the environment turned it off.

    Call it where a program of a CPU would have this engine, and no scope asks for another one.
    """
    why = problem()
    if why is None or os.environ.get(VARIABLE) in _OFF or _warned:
        return
    _warned.add(why)  # Before the warning, which may be an exception.
    warnings.warn(
        f"impl: guarantee='portable' computes without the engine 'native', because {why}. The bits "
        "are the same, but programs take longer to compile and to run on a CPU. To do: install a "
        "C++ compiler, such as g++, and then samebits again (pip install --force-reinstall). "
        f"{VARIABLE}=off does without the engine, and without this warning.",
        RuntimeWarning,
        stacklevel=2,
    )


def _loaded() -> ctypes.CDLL:
    """Returns the library.

    Raises:
        _UnfitError: The library is missing, or does not fit this process.
    """
    if os.environ.get(VARIABLE) in _OFF:
        raise _UnfitError(f"the environment variable {VARIABLE} turns it off")
    file = path()
    if file is None:
        raise _UnfitError("its C++ library was not built")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise _UnfitError(f"its library cannot be loaded: {error}") from error
    try:
        built_from = (ctypes.c_char * 64).in_dll(library, "samebits_sources").value.decode()
        version = tuple((ctypes.c_int * 2).in_dll(library, "samebits_api_version"))
    except ValueError as error:
        raise _UnfitError(f"its library does not say what it was built from: {error}") from error
    if _sources() not in {None, built_from}:
        raise _UnfitError("its library was built from other sources than this checkout has")
    of_xla = _api_version()
    if of_xla is not None and (version[0] != of_xla[0] or version > of_xla):
        # XLA would raise when it starts, and then have no CPU at all.
        raise _UnfitError(
            f"its library was built for version {version[0]}.{version[1]} of XLA's interface, and "
            f"this jaxlib has {of_xla[0]}.{of_xla[1]}"
        )
    for name in CALLS:
        if not hasattr(library, name):
            raise _UnfitError(f"its library has no function {name}")
    return library


def _sources() -> str | None:
    """Returns the digest of the C++ in this checkout, as CMakeLists.txt has it; None in a wheel."""
    if not (_FOLDER / "CMakeLists.txt").is_file():
        return None
    names = sorted(
        f"src/{file.name}"
        for file in (_FOLDER / "src").iterdir()
        if file.suffix in {".cc", ".h", ".in"}
    )
    lines = (
        f"{name} {hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest()}\n"
        for name in ("CMakeLists.txt", "programs.json", *names)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _api_version() -> tuple[int, int] | None:
    """Returns the version of XLA's interface for custom calls; None if its header is missing."""
    try:
        header = pathlib.Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text("utf-8")
    except OSError:
        return None
    numbers = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    return (int(numbers["MAJOR"]), int(numbers["MINOR"])) if len(numbers) == 2 else None
