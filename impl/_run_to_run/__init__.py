"""The guarantee ``run_to_run`` for JAX's own scatters: their lowering rules and their sequences.

``rules`` has the lowering rules, which read the mode, and ``launches`` the choice of kernels.
``ordered`` computes a scatter in the order of the source: ``flat_scatter`` brings it into the form
of rows, and ``sorted_keys`` sorts these by destination. ``pool_gradient`` is for
``lax.select_and_scatter_add``. ``schedule`` permutes updates, for tests.
"""
