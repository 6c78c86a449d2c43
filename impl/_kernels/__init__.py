"""Programs for a GPU, written with Pallas, one file for each primitive that has kernels.

A function of this package launches one kernel for a lowering of ``impl._lowerings``. Every kernel
of an ordered path has a lowering to plain XLA operations with the same bits. That lowering serves
platforms without these kernels.

- ``launch`` holds the operations that a kernel may use. ``_contributions`` divides the
  contributions of a scatter among kernel instances.
- ``triton`` is the backend, and the one file that knows Triton and PTX.
- ``scan_tiles`` holds the blocked scan by any operation; ``impl._families.scan_source`` describes
  what an instance loads for it.

``scatter_accumulate.atomic`` is the one kernel whose result depends on timing: atomics add there in
any order, which costs less than any order that is kept. Where an ordered path costs no more than
atomics would, or JAX has an operation of its own, no kernel races.

Parts of kernels: ``_columns`` of ``scan_tiles``; ``scatter_accumulate_rows`` for wide rows, with
``_sorted_rows``. ``pallas`` is Pallas, imported where kernels may be needed. It tells whether there
is a backend.

A file of kernels takes as long to import as several lowerings, and no CPU runs kernels. So the
lowerings import this package, and a file of kernels is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl._core import later

if TYPE_CHECKING:
    from impl._kernels import scan_tiles as scan_tiles
    from impl._kernels import scatter_accumulate as scatter_accumulate
    from impl._kernels import scatter_atomic as scatter_atomic
    from impl._kernels import scatter_runs as scatter_runs
else:
    _LATER = (
        "scan_tiles",
        "scatter_accumulate",
        "scatter_atomic",
        "scatter_runs",
    )
    __getattr__ = later.names(__name__, {name: f"{__name__}.{name}" for name in _LATER})
