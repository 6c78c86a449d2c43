"""The guarantee ``run_to_run`` for JAX's own scatters: their lowering rules and their sequences.

``rules`` has the lowering rules, which read the mode, and the choice of kernels. ``ordered``
computes the gradient of a max pool, and a scatter in the order of the source. It also permutes
updates, for tests.
"""
