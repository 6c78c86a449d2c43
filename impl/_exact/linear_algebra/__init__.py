"""Solutions, decompositions and Fourier transforms whose steps have one order.

``triangular`` solves, and has Cholesky's decomposition and LU; ``householder`` has QR and the
reduction of a matrix by reflections; ``rotations`` has eigenvalues and singular values;
``fourier`` has Fourier transforms.
"""
