"""The version of samebits, which the build reads, and which is a part of names on disk."""

__version__ = "0.1.0.dev0"
