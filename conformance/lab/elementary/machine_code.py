"""Compiles the elementary functions for GPUs.

``python -m conformance.lab.elementary.machine_code`` prints what it finds in their code.

No GPU is needed. The code may contract nothing, flush nothing by itself, and approximate nothing.
It needs what ``python -m conformance compile`` needs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from conformance.lab.compiled import TARGETS, compiler
from conformance.lab.readers import ptx
from impl._exact import arithmetic
from impl._exact.elementary import DOUBLE, FUNCTIONS

_OF_TWO = ("atan2", "div", "pow")
_SHORT = tuple(map(np.dtype, (np.float32, np.float16, jnp.bfloat16)))
#: Approximations of every kind, and sums and products that the assembler may contract, since they
#: do not state a rounding.
_INEXACT = re.compile(r"(?<![\w.%])(\w+\.approx[\w.]*|(?:add|sub|mul|mad)\.f(?:32|64))\s")


def faults(name: str, dtype: np.dtype, target: str) -> list[str]:
    """Returns the instructions of a function's code that have other bits on other devices.

    Args:
        name: The name of its primitive.
        dtype: The dtype of its operands.
        target: The name of the GPU.
    """
    parameters = {"y": 7} if name == "integer_pow" else {}
    shape = jax.ShapeDtypeStruct((1 << 20,), dtype)

    def call(*operands: jax.Array) -> jax.Array:
        with arithmetic.wide():
            return FUNCTIONS[name](*operands, **parameters)

    operands = (shape,) * (2 if name in _OF_TWO else 1)
    code = compiler.compile_call(call, operands, target, compiler.NO_AUTOTUNING)
    if not code.kernels:
        return ["no kernel"]
    text = "\n".join(dict.fromkeys(code.kernels.values()))
    return [*ptx.contractions(text), *ptx.approximations(text), *inexact(text)]


def inexact(code: str) -> list[str]:
    """Returns the approximations and the arithmetic without a rounding, each once."""
    return list(dict.fromkeys(match[1] for match in _INEXACT.finditer(code)))


def main(targets: Sequence[str] = TARGETS) -> int:
    """Compiles every function, prints the faults, and returns the exit status."""
    with compiler.prepared() as is_able:
        if not is_able:
            return 2
        jax.config.update("jax_enable_x64", True)
        count, found = 0, 0
        for target in targets:
            for name in FUNCTIONS:
                double = (np.dtype(np.float64),) if name in DOUBLE else ()
                for dtype in (*_SHORT, *double):
                    count += 1
                    for fault in faults(name, dtype, target):
                        found += 1
                        print(f"{name} of {dtype} for {target}: {fault}")
    print(f"{count} programs, {found} faults")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or TARGETS))
