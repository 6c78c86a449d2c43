"""A planted fault: XLA computes the primitive that the environment names, as without this project.

``PRIMITIVE=exp python -m conformance hunt --plant conformance/tests/hunt/xlas_own.py``
"""

import dataclasses
import os

from impl._portable.rules import RULES

_NAME = os.environ["PRIMITIVE"]
RULES[_NAME] = dataclasses.replace(
    RULES[_NAME], compute=None, by_jax="native", takes=frozenset(), simpler=None, over_devices=None
)
