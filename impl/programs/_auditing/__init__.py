"""``impl.audit`` and ``impl.testing.assert_deterministic``."""
