"""The families of benchmarks: a module for each, with its cases.

A family has ``TITLE``; ``BASE``, the side that the others are compared with; ``OURS``, the side
that is deterministic; ``cases(setting)``; and, if a reader has to know more, ``REMARKS``. With
``UNDER_FLAGS``, that side runs once more under XLA's deterministic flags, on a GPU.
"""
