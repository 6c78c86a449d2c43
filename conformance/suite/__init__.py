"""The tests of ``python -m conformance run``, and the samples, cells and promises they take."""
