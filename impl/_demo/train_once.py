"""One run of training with the mode on: ``python -m impl._demo.train_once`` writes what came of it.

It is a module by itself because the demo starts it twice, each time in a fresh process.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import impl
from impl._demo import model, training

if __name__ == "__main__":
    impl.use_deterministic_algorithms(True, profile="complete")
    json.dump(dataclasses.asdict(training.run(model.Settings())), sys.stdout)
