"""Programs compiled to machine code for GPUs that are not there: ``python -m conformance compile``.

What a row's program is lowered to says what XLA was given, and not what it made of it. Here XLA
compiles it for a named GPU, and what is read is the optimised program and the kernels' PTX.
"""
