"""Properties that hold for every public op, tested on the samples of ``samples_of_*.py``.

The ops are found by introspection. A new op fails here until it has a sample.
"""
