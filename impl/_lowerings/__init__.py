"""Ways to compute each path of a primitive, one file for each primitive.

A primitive of ``impl._primitives`` has an atomic and an ordered path, and chooses for each path one
of three functions by the platform: one for a CPU (its name ends in ``_cpu``), one of plain XLA
operations for any device (``_xla``), and one that launches a kernel of ``impl._kernels``
(``_kernel``). On the ordered path the three give the same bits.

Names begin with the path, as in ``ordered_cpu``, unless both paths share the function. Files
without a primitive of their name hold a part of one: ``scatter_accumulate_chains``,
``scatter_accumulate_cpu``, ``scatter_accumulate_extreme`` and ``scan_cpu``. ``_common`` holds what
several files share. The primitives ``alert``, ``arithmetic``, ``gather`` and ``uninitialized`` have
one lowering for all platforms, beside their rules.
"""
