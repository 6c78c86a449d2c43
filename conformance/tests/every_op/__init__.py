"""Properties that hold for every public op, tested on the entries of ``conformance/cases``.

The ops are found by introspection. A new op fails here until it has an entry.
"""
