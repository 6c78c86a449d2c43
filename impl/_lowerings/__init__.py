"""Functions that compute the paths of primitives, one file for each primitive.

A primitive of ``impl._primitives`` has an ordered path, and an atomic one if that costs less. It
chooses for each path one of three functions by the platform: one for a CPU (its name ends in
``_cpu``), one of plain XLA operations for any device (``_xla``), and one that launches a kernel of
``impl._kernels`` (``_kernel``). On the ordered path the three give the same bits.

The name of a function begins with the path, as in ``ordered_cpu``, or with its result, as in
``argsort_cpu``.

Some files hold a part of a primitive: ``scatter_accumulate_chains``, ``scatter_accumulate_cpu``,
``scatter_accumulate_exact``, ``scatter_accumulate_extreme`` and ``scatter_accumulate_ordered``.
``windows`` is a package, with a table of its algorithms. ``_common`` holds operations that several
files share, ``_partitioning`` shares the work among devices, and ``_traces`` caches traces. The
primitives ``alert``, ``arithmetic``, ``gather`` and ``uninitialized`` have one lowering each, in
the file of their rules.

The primitives with a file of one lowering or more are ``blend``, ``convolution``, ``matmul``,
``scatter_accumulate``, ``scatter_assign``, ``select_kth``, ``sort``, ``sparse_matmul``, ``total``
and ``windows``; ``convolution_products`` is a part of one.
"""
