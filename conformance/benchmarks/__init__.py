"""Benchmarks: the cost of the ordered path, beside plain JAX and PyTorch.

A benchmark is a module with ``TITLE``, ``BASE`` (the side that the ratios refer to) and
``measure``. All sides of a case run in turns in one process, and a table shows their times and the
ratios. ``results`` holds the tables of this project's own runs.
"""
