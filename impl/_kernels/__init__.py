"""The pair of kernels for scatters on a GPU, written with Pallas.

``impl._run_to_run`` launches them for JAX's own scatters, and has operations of XLA for platforms
without kernels.

- ``launch`` holds the operations that a kernel may use, and the ones that it combines by.
- ``triton`` is the backend, and the one file that knows Triton and PTX. ``pallas`` is Pallas,
  imported where kernels may be needed; it tells whether there is a backend.
- ``scatter_runs`` combines the contributions of a scatter in a fixed order. ``scatter_atomic``
  combines them in any order: the one kernel whose result depends on timing.

A file of kernels takes as long to import as several rules, and no CPU runs kernels. So a
file of kernels is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl._core import modules

if TYPE_CHECKING:
    from impl._kernels import scatter_atomic as scatter_atomic
    from impl._kernels import scatter_runs as scatter_runs
else:
    _LATER = (
        "scatter_atomic",
        "scatter_runs",
    )
    __getattr__ = modules.names(__name__, {name: f"{__name__}.{name}" for name in _LATER})
