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


def _torch_state(torch):
    return {
        "mode": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill": torch.utils.deterministic.fill_uninitialized_memory,
        "enabled": torch.backends.cudnn.enabled,
        "benchmark": torch.backends.cudnn.benchmark,
        "deterministic": torch.backends.cudnn.deterministic,
        "threads": torch.get_num_threads(),
        "generator": torch.random.get_rng_state(),
    }


def _restore_torch(torch, before):
    # Only changed settings: the setters take milliseconds.
    after = _torch_state(torch)
    if any(after[name] != before[name] for name in ("mode", "warn_only")):
        torch.use_deterministic_algorithms(before["mode"], warn_only=before["warn_only"])
    torch.utils.deterministic.fill_uninitialized_memory = before["fill"]
    for name in ("enabled", "benchmark", "deterministic"):
        if after[name] != before[name]:
            setattr(torch.backends.cudnn, name, before[name])
    if after["threads"] != before.get("threads", after["threads"]):
        torch.set_num_threads(before["threads"])
    if not torch.equal(after["generator"], before.get("generator", after["generator"])):
        torch.random.set_rng_state(before["generator"])


#: The state of PyTorch after its import, as far as its documents name it.
_FRESH = {
    "mode": False,
    "warn_only": False,
    "fill": True,
    "enabled": True,
    "benchmark": False,
    "deterministic": False,
}


@contextlib.contextmanager
def pytorch():
    """Restores PyTorch's mode, flags of cuDNN, threads and generator.

    If a test is the first to import it, the mode and the flags get their values after an import.
    """
    before = _torch_state(sys.modules["torch"]) if "torch" in sys.modules else _FRESH
    try:
        yield
    finally:
        torch = sys.modules.get("torch")
        if torch is not None:
            _restore_torch(torch, before)


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
