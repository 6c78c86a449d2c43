"""A planted fault: XLA computes the primitive that the environment names, as without this project.

``PRIMITIVE=exp python -m conformance hunt --plant conformance/tests/hunt/xlas_own.py``
"""

import dataclasses
import os
from typing import Any

from jax._src.interpreters import mlir

from impl._portable.rules import RULES

_NAME = os.environ["PRIMITIVE"]
_RULE = RULES[_NAME]
_COMPUTED = ("compute", "of_complex", "simpler", "over_devices")
# Without a function, the rule prepares what JAX lowers.
_PREPARED = (
    ()
    if _RULE.compute or _RULE.by_jax == "written"
    else ("params", "guards", "moves", "keeps_whole")
)
_CHANGED: dict[str, Any] = dict.fromkeys((*_COMPUTED, *_PREPARED))
RULES[_NAME] = dataclasses.replace(_RULE, by_jax="native", takes=frozenset(), **_CHANGED)
# For a GPU, JAX lowers some by calls of a library that only a machine with a GPU has.
for _lowerings in mlir._platform_specific_lowerings.values() if _RULE.by_jax == "written" else ():
    for _primitive in [each for each in _lowerings if each.name.startswith(("coo_", "csr_"))]:
        del _lowerings[_primitive]
