"""Promises of what stands under ``utils.data``."""
