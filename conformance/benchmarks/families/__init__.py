"""The families of benchmarks: a module for each, with its cases.

A family has ``TITLE``; ``BASE``, the side with which each side is compared; ``OURS``, the side
that is deterministic; ``cases(setting)``; and, if a reader has to know more, ``REMARKS``. With
``UNDER_FLAGS``, that side runs once more under XLA's deterministic flags, on a GPU.
"""
