"""Sums that no order changes: of axes, of scatters, and of windows."""
