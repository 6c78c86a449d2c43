"""How the elementary functions of ``impl._exact.elementary`` are made and proven.

``python -m conformance.lab.elementary.coefficients`` writes their coefficients, and
``python -m conformance.lab.elementary.exhaustive`` tries every float32. Both need mpmath.
"""
