"""Products of matrices and convolutions that no order changes."""
