"""Pallas and its Triton backend, which are imported where kernels may be needed.

They take as long to import as a fifth of this package, and no program for a CPU launches a kernel.
On a machine with CUDA they are imported with this module. Kernels write ``pl.store`` as if this
module were ``jax.experimental.pallas``.

JAX deprecates the Triton backend since 0.11.0. ``reason_missing`` tells whether the installed JAX
still has it; without it, the lowerings take operations of XLA.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
import types
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from impl._jax import shardings

if TYPE_CHECKING:
    from jax.experimental.pallas import *  # noqa: F403
    from jax.experimental.pallas import triton as triton
else:

    def __getattr__(name: str) -> Any:
        from jax.experimental import pallas  # noqa: PLC0415
        from jax.experimental.pallas import triton  # noqa: PLC0415

        return triton if name == "triton" else getattr(pallas, name)


#: The modules of the backend, and the names that kernels use of each.
PARTS = {
    "jax.experimental.pallas": ("cdiv", "next_power_of_2", "pallas_call", "program_id"),
    "jax.experimental.pallas.triton": (
        *("CompilerParams", "load", "store"),
        *("atomic_add", "atomic_xchg"),
    ),
}


@functools.cache
def reason_missing() -> str | None:
    """Returns why kernels cannot be launched in this process; None if they can.

    The first call imports the backend, and each later call returns the same answer. Programs that
    JAX has compiled keep the lowering that they have.
    """
    for module, names in PARTS.items():
        try:
            part = importlib.import_module(module)
        except (ImportError, AttributeError, Warning) as error:
            # A filter of warnings may make an error of JAX's deprecation.
            kind = type(error).__name__
            return f"jax {jax.__version__} cannot import {module} ({kind}: {error})"
        lacking = [name for name in names if not hasattr(part, name)]
        if lacking:
            return f"jax {jax.__version__} has no {', '.join(lacking)} in {module}"
    # MLIR imports this module each time that it meets a type of Triton. jaxlib lacks it, and the
    # searches in vain take a fifth of the time in which a kernel is lowered.
    name = "jaxlib.mlir.dialects.tt"
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
    return None


def has_cuda() -> bool:
    """Returns whether JAX has a plugin for the GPUs that kernels are for."""
    plugins = importlib.util.find_spec("jax_plugins")
    folders = plugins.submodule_search_locations if plugins else None
    return any(module.name.startswith("xla_cuda") for module in pkgutil.iter_modules(folders or []))


@functools.cache
def load_interpreter() -> None:
    """Imports what JAX needs to interpret a kernel on a CPU."""
    if reason_missing() is not None:
        return
    pallas = importlib.import_module("jax.experimental.pallas")

    def copy(source: Any, target: Any) -> None:
        target[...] = source[...]

    shape = jax.ShapeDtypeStruct((1,), np.int32)
    # The interpreter's loops fail where the mesh has an explicit axis.
    with shardings.no_mesh():
        jax.jit(pallas.pallas_call(copy, out_shape=shape, interpret=True)).lower(shape)


# Pallas adds settings of its own to the key of each trace, in jax 0.11 and later. If the first call
# of a program imports Pallas, the second call has another key: JAX compiles the program again.
if has_cuda():
    reason_missing()
