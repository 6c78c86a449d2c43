"""float64 without float64: its operations by integers, for devices where it is absent or slow.

- ``words`` has the fields of a float64 in an integer of 64 bits, and rounds once. ``arithmetic``
  adds, multiplies, divides and takes roots, compares, converts from and to other dtypes, and rounds
  to whole numbers.
- ``reductions`` are sums over axes and devices; ``products`` are products of matrices by
  digits of int8.
- ``interpreter`` has the operation of each of JAX's primitives, and evaluates a function of arrays
  with them, and ``engines`` asks for it where the device needs it.
"""
