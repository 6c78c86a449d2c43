"""What determinism costs: sides that do the same are timed in one run, and ratios reported."""
