"""What rows of the kinds ``random`` and ``loader`` promise, tried.

One module per op, in lower case, each with ``promises()``.
"""
