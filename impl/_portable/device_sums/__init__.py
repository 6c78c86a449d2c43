"""Sums over the devices of a ``shard_map``, joined with the sums of each device.

``push`` moves a sum back through the body of a ``shard_map``, past the operations that ``linear``
lists, and ``equations`` writes the equations of the sum that moved. ``flow`` and ``states`` know
the sharding of each value. ``lower_sums`` applies all of it when a ``shard_map`` is lowered.
"""
