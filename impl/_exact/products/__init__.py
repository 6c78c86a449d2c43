"""Products of matrices and convolutions that no order changes.

``dot_general`` has the product whose error is known, ``doubles`` has products of float64,
``layout`` has their dimensions, and ``convolution`` writes a convolution as one.
"""
