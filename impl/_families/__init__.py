"""What the primitive, the lowerings and the kernels of one family of ops share."""
