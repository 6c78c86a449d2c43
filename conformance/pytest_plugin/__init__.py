"""The pytest plugins of the suite: options, records, rounds, expectations, help on a failure."""
