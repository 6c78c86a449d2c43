"""How the elementary functions of ``impl._exact.elementary`` are made and proven.

``python -m conformance.elementary.coefficients`` writes their coefficients, and
``python -m conformance.elementary.exhaustive`` tries every float32. Both need mpmath.
"""
