"""The pytest plugins of the suite: its options, its report, expectations, and help on a failure."""
