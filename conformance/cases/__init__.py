"""The samples of all ops: a module for each family, named after its file in ``spec/rows``.

Each module has a function ``samples``, which returns the samples of each op of the family. Modules
whose names begin with an underscore hold what several families share.
"""
