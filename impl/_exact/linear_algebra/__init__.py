"""Solutions, decompositions and Fourier transforms whose steps have one order.

``decompositions`` solves triangular systems, and has Cholesky's decomposition, LU, QR and the
reduction of a matrix by reflections; ``rotations`` has eigenvalues and singular values;
``fourier`` has Fourier transforms.
"""
