"""Products of matrices and convolutions that no order changes.

``dot_general`` and ``convolution`` are the functions; ``convolution_by_dots`` computes a
convolution by products of matrices. ``dot_general`` also has the product whose error is known.
"""
