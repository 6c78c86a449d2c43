"""Readers of what compilers write: StableHLO, HLO and PTX."""
