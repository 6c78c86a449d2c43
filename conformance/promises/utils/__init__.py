"""Promises of the modules of ``utils``."""
