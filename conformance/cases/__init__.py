"""The table of operations: each module has ``OPS``, the entries of several ops.

``conformance.cases.table`` says what an entry is, and reads the table. Modules whose names begin
with an underscore hold what several modules share.
"""
