"""Calls of what stands under ``sparse``."""
