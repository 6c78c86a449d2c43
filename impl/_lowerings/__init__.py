"""How lowerings share their work among devices: ``_partitioning``."""
