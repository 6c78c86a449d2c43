"""Tests of the runs in rounds on a device."""
