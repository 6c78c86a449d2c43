"""The public ops, a family in a file. Import an op from ``impl``, which names its file.

- ``_op`` makes an op of a function, and in ``impl.nn`` several ops of one function.
- ``_scatters`` writes at indices; ``_reductions`` has products, means and extremes at indices.
- ``_reads`` reads at indices along one dimension; ``_subscripts`` has expressions. ``_indexing``
  has the reads and writes of these ops, and combines arrays of indices to one index.
- ``_running``: cumulative sums and their like. ``_selection``: sorts, medians and their like.
- ``_products`` of dense and sparse matrices. ``_counting``: histograms.
- ``_memory``: uninitialised arrays, and ``resize``.
"""
