"""Programs for a GPU, written with Pallas, one file for each primitive that has kernels.

A function of this package launches one kernel for a lowering of ``impl._lowerings``. Every kernel
of an ordered path has a lowering to plain XLA operations with the same bits. That lowering serves
platforms without these kernels.

- ``launch`` holds the operations that a kernel may use. ``_contributions`` divides those of a
  scatter among programs.
- ``triton`` is the backend, and the one file that knows Triton and PTX.
- ``scan_tiles`` holds the blocked scan of every operation, of what ``scan_source`` describes.
- ``convolution``, ``matmul``, ``scan``, ``scatter_accumulate``, ``scatter_assign``, ``select_kth``
  and ``windows`` hold the kernels of the primitives of these names.
"""
