"""Calls of what neural networks are made of."""
