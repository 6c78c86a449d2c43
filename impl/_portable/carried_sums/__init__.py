"""Sums that a scan carries."""
