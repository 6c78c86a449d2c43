"""Products of matrices and convolutions that no order changes.

``dot_general`` and ``convolution`` are the functions; ``convolution_by_dots`` computes a
convolution by products of matrices. ``levels`` chooses the grids that operands are rounded to,
``engines`` adds the products of integers on the units of a device, and ``shards`` is about
operands of several devices.
"""
