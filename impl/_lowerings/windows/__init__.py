"""The lowerings of window operations."""
