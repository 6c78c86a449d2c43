"""The public ops: a file each, named as the op is."""
