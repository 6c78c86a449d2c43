"""Solutions, decompositions and Fourier transforms whose steps have one order."""
