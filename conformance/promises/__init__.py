"""Tests of the rows of the kinds ``random`` and ``loader``.

Each op has a module of its name, in lower case, with a function ``promises``.
"""
