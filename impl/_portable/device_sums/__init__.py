"""Sums over the devices of a ``shard_map``, joined with the sums of each device."""
