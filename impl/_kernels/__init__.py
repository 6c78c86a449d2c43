"""Programs for a GPU, written with Pallas, one file for each primitive that has kernels.

A function of this package launches one kernel for a lowering of ``impl._lowerings``. Every kernel
of an ordered path has a lowering to plain XLA operations with the same bits. That lowering serves
platforms without these kernels.

- ``launch`` holds the operations that a kernel may use. ``_contributions`` divides the
  contributions of a scatter among kernel instances.
- ``triton`` is the backend, and the one file that knows Triton and PTX.
- ``convolution``, ``matmul``, ``scatter_accumulate`` and ``select_kth`` hold the kernels of the
  primitives of these names.

``scatter_accumulate.atomic`` is the one kernel whose result depends on timing: atomics add there in
any order, which costs less than any order that is kept. Where an ordered path costs no more than
atomics would, or JAX has an operation of its own, no kernel races.

Parts of kernels: ``scatter_accumulate_rows`` for wide rows, with ``_sorted_rows``;
``select_kth_sample`` for long rows, with ``_passes`` and ``_rows``; ``sort_top`` and
``sort_frequent``. ``pallas`` is Pallas, imported where kernels may be needed. It tells whether
there is a backend.

A file of kernels takes as long to import as several lowerings, and no CPU runs kernels. So the
lowerings import this package, and a file of kernels is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impl._core import later

if TYPE_CHECKING:
    from impl._kernels import convolution as convolution
    from impl._kernels import matmul as matmul
    from impl._kernels import scatter_accumulate as scatter_accumulate
    from impl._kernels import scatter_accumulate_rows as scatter_accumulate_rows
    from impl._kernels import select_kth as select_kth
    from impl._kernels import sort_frequent as sort_frequent
    from impl._kernels import sort_top as sort_top
else:
    _LATER = (
        "convolution",
        "matmul",
        "scatter_accumulate",
        "scatter_accumulate_rows",
        "select_kth",
        "sort_frequent",
        "sort_top",
    )
    __getattr__ = later.names(__name__, {name: f"{__name__}.{name}" for name in _LATER})
