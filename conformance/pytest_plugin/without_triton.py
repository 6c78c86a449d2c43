"""A plugin that hides Pallas' Triton backend from a run of pytest, as a later JAX may lack it.

``pytest -p conformance.pytest_plugin.without_triton`` refuses each import of the backend. Kernels
cannot be launched then, so every op takes its operations of XLA on a GPU, and on a CPU that stands
in for one. Tests with the mark ``triton`` are skipped.

pytest imports a plugin before any conftest, and so before anything imports JAX.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

#: The module that a later JAX may lack. JAX's own code needs it for kernels alone.
BACKEND = "jax.experimental.pallas.triton"


class Hidden(importlib.abc.MetaPathFinder):
    """Refuses to import the backend, before any other finder sees its name."""

    def find_spec(
        self,
        fullname: str,
        _path: Sequence[str] | None = None,
        _target: types.ModuleType | None = None,
        /,
    ) -> importlib.machinery.ModuleSpec | None:
        """Raises for the backend, and leaves every other module to the next finder."""
        if fullname == BACKEND:
            raise ModuleNotFoundError(f"No module named {fullname!r}: it is hidden", name=fullname)
        return None


if BACKEND in sys.modules:
    raise ImportError(f"{__name__} has to be imported before {BACKEND}")
sys.meta_path.insert(0, Hidden())
