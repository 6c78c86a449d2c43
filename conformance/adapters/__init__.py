"""Adapters: one for each implementation that the suite can test."""
