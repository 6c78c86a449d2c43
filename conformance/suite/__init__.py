"""The tests that ``python -m conformance run`` runs."""
