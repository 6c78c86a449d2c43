"""The promises of all rows of the kinds ``random`` and ``loader``: a module for each family.

Each module has a function ``promises``, which returns the promises of each op of the family.
"""
