"""Pallas kernels for CUDA, through the Triton backend; one function each for the lowerings.

Every kernel of an ordered path has a plain XLA lowering with the same bits in ``impl._lowerings``,
which serves wherever Triton is missing.
"""
