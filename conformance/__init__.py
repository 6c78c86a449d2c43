"""The conformance suite: what the rows of the spec say, tried on an implementation.

``python -m conformance run`` needs jax, NumPy and pytest. The tests are generated from the rows;
a case in ``conformance.cases`` only says how to call an op and what is right.
"""
