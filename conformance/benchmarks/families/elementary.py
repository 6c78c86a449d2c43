"""Elementary functions of ``impl._exact.elementary`` against the functions of plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS

TITLE = "Elementary functions, float32"
BASE = "plain JAX"
OURS = "exact"
#: The numbers of elements of an argument: one that fits into the cache, and one that does not.
SIZES = (1 << 18, 1 << 23)
#: For each function, the least and the greatest argument, and the function of plain JAX.
OPS: Mapping[str, tuple[float, float, Callable[..., Any]]] = MappingProxyType(
    {
        "exp": (-5, 5, jnp.exp),
        "log": (0.01, 10, jnp.log),
        "tanh": (-5, 5, jnp.tanh),
        "logistic": (-5, 5, jax.nn.sigmoid),
        "rsqrt": (0.01, 10, lax.rsqrt),
        "sqrt": (0.01, 10, lax.sqrt),
        "div": (-5, 5, lax.div),
        "pow": (0.01, 10, lax.pow),
        "erf": (-5, 5, lax.erf),
        "log1p": (-0.9, 10, jnp.log1p),
        "expm1": (-5, 5, jnp.expm1),
        "sin": (-5, 5, jnp.sin),
        "cos": (-5, 5, jnp.cos),
        "erf_inv": (-0.99, 0.99, lax.erf_inv),
    }
)
_OF_TWO = ("div", "pow")


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every function at every size, which ``setting.times`` multiplies."""
    rng = np.random.default_rng(0)
    for name, (low, high, plain) in setting.some(OPS, 4).items():
        for size in setting.some(SIZES):
            count = 2 if name in _OF_TWO else 1
            values = [rng.uniform(low, high, size * setting.times) for _ in range(count)]
            arguments = [jnp.asarray(value, jnp.float32) for value in values]
            portable = jax.jit(_portable(name)).lower(*arguments).compile()
            usual = jax.jit(plain).lower(*arguments).compile()
            sides: dict[str, Side] = {
                BASE: run(usual, *arguments),
                OURS: run(portable, *arguments),
            }
            case = {"function": name, "elements": f"{size * setting.times:,}"}
            yield Case(case, sides, OURS)


def _portable(name: str) -> Callable[..., Any]:
    def call(*operands: Any) -> Any:
        with arithmetic.wide():
            return FUNCTIONS[name](*operands)

    return call
