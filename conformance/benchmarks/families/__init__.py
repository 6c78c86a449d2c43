"""The families of benchmarks: each module has some, by name, in ``FAMILIES``."""
