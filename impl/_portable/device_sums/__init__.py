"""Sums over the devices of a ``shard_map``, joined with the sums of each device.

``push`` moves a sum back through the body of a ``shard_map``, past the operations that ``linear``
lists. It writes a ``draft`` of the new body, with the primitives of ``equations``. ``flow`` follows
the ``shardings`` of values through the body by ``sharding_rules``. ``lower_sums`` applies all of it
when a ``shard_map`` is lowered.
"""
