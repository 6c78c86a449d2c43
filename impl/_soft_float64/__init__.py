"""float64 without float64: its operations by integers, for devices where it is absent or slow."""
