"""The pair of kernels for scatters on a GPU, written with Pallas.

``impl._run_to_run`` launches them for JAX's own scatters, and has operations of XLA for platforms
without kernels.

- ``launch`` holds the operations that a kernel may use, and the ones that it combines by.
- ``triton`` is the backend, and the one file that knows Triton. ``pallas`` is Pallas,
  imported where kernels may be needed; it tells whether there is a backend.
- ``scatters`` combines the contributions of a scatter: in a fixed order, or in any order, by
  atomics. The second kernel is the one whose result depends on timing.

The file of kernels takes as long to import as several rules, and no CPU runs kernels. So it is
imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl._core import modules

if TYPE_CHECKING:
    from impl._kernels import scatters as scatters
else:
    __getattr__ = modules.names(__name__, {"scatters": f"{__name__}.scatters"})
