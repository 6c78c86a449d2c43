"""The public ops, in one file for each op, with the name of the op."""
