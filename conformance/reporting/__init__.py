"""The files that a run reads and writes: reports and expectations."""
