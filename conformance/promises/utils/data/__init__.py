"""Promises of the classes of ``utils.data``."""
