"""``python -m impl._demo.train_once``: trains with the mode on, and writes the outcome as JSON.

The training is a program of plain JAX. The line that turns the mode on is all that is added.
The demo starts it twice, each time in a new process.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import impl
from impl._demo import model, training

if __name__ == "__main__":
    impl.use_deterministic_algorithms(True)
    json.dump(dataclasses.asdict(training.run(model.Settings())), sys.stdout)
