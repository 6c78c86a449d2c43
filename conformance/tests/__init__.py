"""Unit tests of the suite's own parts."""
