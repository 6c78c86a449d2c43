"""The guarantee ``run_to_run`` for JAX's own scatters: their lowering rules and ordered paths.

``rules`` has the lowering rules, which read the mode. ``ordered`` computes a scatter in its order,
which ``flat_scatter`` first brings into the form of three axes; ``pool_gradient`` is for
``lax.select_and_scatter_add``. ``schedule`` permutes updates, for tests.
"""
