"""``impl.audit`` and ``impl.testing.assert_deterministic``.

``audit`` reads a program, and ``judge`` gives each of its equations a verdict. ``sharded`` finds
the equations that read sharded arrays. ``report`` holds and prints the findings. ``assertion``
audits, and then runs a program.
"""
