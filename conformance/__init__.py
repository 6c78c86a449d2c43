"""The conformance suite: tests of the rows of the spec, for any implementation.

``python -m conformance run`` needs NumPy, JAX and pytest. The tests are generated from the rows. A
sample in ``conformance.cases`` only states how to call an op and what its right result is.
"""

import runpy
from pathlib import Path

# By its path, since importing it would import impl, and with it JAX.
runpy.run_path(str(Path(__file__).parents[1] / "impl" / "_shadowing.py"))
