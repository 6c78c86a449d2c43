"""The conformance suite: what the rows of the spec say, tried on an implementation.

``python -m conformance run`` needs jax, NumPy and pytest. The tests are generated from the rows;
a case in ``conformance.cases`` only says how to call an op and what is right.
"""

import runpy
from pathlib import Path

# By its path, since importing it would import impl, and with it JAX.
runpy.run_path(str(Path(__file__).parents[1] / "impl" / "_shadowing.py"))
