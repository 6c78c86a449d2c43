"""Restores all global state after each test, so that tests depend on no order.

A conftest activates it: ``from impl.tests._state import restored_state as restored_state``. It
overrides the fixture ``restored_state`` of ``spec.tests``, and also restores what that fixture
does.
"""

import contextlib
import functools
import sys

import jax
import numpy as np
import pytest
from jax._src import pjit
from jax._src.interpreters import mlir, pxla
from jax._src.lax import lax

from impl import random
from impl._mode import compilation, emulation, modes, switches
from spec.tests._state import python


@contextlib.contextmanager
def mode():
    """Restores the mode, the setting that fills memory, the switches, and the stand-in.

    JAX's backend starts before the test, so that the mode never sets flags of XLA in this process:
    whether an audit knows the kernels of products depends on no earlier test.
    """
    jax.devices()
    warned = set(compilation._warned)
    contexts = (modes._mode, modes._fill, switches._switches, emulation.scope)
    values = [context.get_global() for context in contexts]
    try:
        yield
    finally:
        for context, value in zip(contexts, values, strict=True):
            context.set_global(value)
        compilation._warned.clear()
        compilation._warned.update(warned)


@contextlib.contextmanager
def generators():
    """Restores NumPy's global generator and the default generator of impl, with its seed."""
    of_numpy = np.random.get_state()  # noqa: NPY002  # It restores the global generator.
    state, libraries_seed = random.default_generator._state, random._libraries_seed
    try:
        yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.default_generator._state = state
        random._libraries_seed = libraries_seed


@contextlib.contextmanager
def jax_settings():
    """Restores the process-wide settings of ``jax.config``."""
    before = dict(jax.config.values)
    try:
        yield
    finally:
        for name, value in dict(jax.config.values).items():
            if value != before[name]:
                jax.config.update(name, before[name])


#: A context of MLIR takes 3 ms and a megabyte, and more time with each that lives: whenever MLIR
#: makes one, it visits what every other one has in the cache of the thread
#: (``ThreadLocalCache::clearExpiredEntries``). One serves the programs of many tests.
mlir.make_ir_context = functools.cache(mlir.make_ir_context)


def _staged(value):
    return value if isinstance(value, jax.Array) else jax.device_put(value, may_alias=False)


#: ``jnp.asarray`` of an array of NumPy compiles a copy for each shape and dtype, in 15 ms. Here it
#: calls no compiler.
lax.stage_p.def_impl(_staged)  # type: ignore[attr-defined]  # of JAX itself
#: Without a folder on disk, JAX still computes the key of each program, in half a millisecond.
jax.config.update("jax_enable_compilation_cache", False)
#: The caches in which JAX keeps the MLIR of programs that it has compiled, and their context.
_LOWERED = (pjit._pjit_lower, pxla._cached_lowering_to_hlo, mlir.make_ir_context)
#: The number of programs that may stay, so that the tests of a file share theirs.
_FEW = 64


@contextlib.contextmanager
def lowered_programs():
    """Forgets the MLIR of compiled programs, so that the programs of all tests do not add up.

    JAX keeps the last 2,048.
    """
    yield
    if pxla._cached_lowering_to_hlo.cache_info().currsize > _FEW:
        for cache in _LOWERED:
            cache.cache_clear()


@contextlib.contextmanager
def numpy_settings():
    """Restores how NumPy handles errors of floating point and how it prints."""
    with np.errstate(), np.printoptions():
        yield


def _settings_of(torch):
    """Returns, by name, the functions that read and write a setting of PyTorch."""

    def attribute(owner, name):
        return functools.partial(getattr, owner, name), functools.partial(setattr, owner, name)

    def write_generator(state):
        torch.random.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    cudnn = torch.backends.cudnn
    return {
        "mode": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        "fill": attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
        **{name: attribute(cudnn, name) for name in ("enabled", "benchmark", "deterministic")},
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "generator": (lambda: torch.random.get_rng_state().numpy().tobytes(), write_generator),
    }


#: The state of PyTorch after its import, as far as its documents name it.
_FRESH = {"mode": 0, "fill": True, "enabled": True, "benchmark": False, "deterministic": False}


@contextlib.contextmanager
def pytorch():
    """Restores PyTorch's mode, flags of cuDNN, threads and generator.

    If a test is the first to import it, the mode and the flags get their values after an import.
    """
    before, torch = _FRESH, sys.modules.get("torch")
    if torch is not None:
        before = {name: read() for name, (read, _) in _settings_of(torch).items()}
    try:
        yield
    finally:
        torch = sys.modules.get("torch")
        for name, (read, write) in _settings_of(torch).items() if torch is not None else ():
            # A setter takes milliseconds.
            if name in before and read() != before[name]:
                write(before[name])


PARTS = (python, mode, generators, jax_settings, lowered_programs, numpy_settings, pytorch)


@contextlib.contextmanager
def everything():
    with contextlib.ExitStack() as stack:
        for part in PARTS:
            stack.enter_context(part())
        yield


@pytest.fixture(autouse=True)
def restored_state():
    with everything():
        yield
