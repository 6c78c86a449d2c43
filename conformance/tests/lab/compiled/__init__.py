"""Tests of the machine code that XLA makes for absent GPUs."""
