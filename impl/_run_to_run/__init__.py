"""The guarantee ``run_to_run`` for JAX's own scatters: their lowering rules and ordered paths."""
