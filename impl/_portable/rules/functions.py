"""Elementary functions: the exact value, rounded once (``impl._exact.elementary``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax import lax

from impl._exact import elementary
from impl._exact.elementary import complex_numbers
from impl._native import functions as native
from impl._native import scope
from impl._portable.rule import Compute, Rule, rule
from impl._portable.rules import rounding

_TAKES_FLUSHES = frozenset({"flushes"})
_FIRST_POWER = Rule(
    "first_power",
    compute=functools.partial(rounding.unrounded, lambda value, **_: value),
    takes=_TAKES_FLUSHES,
    is_elementwise=True,
)
_SQUARE = Rule("square", compute=rounding.square, takes=_TAKES_FLUSHES, is_elementwise=True)


def _simpler_power(_: Sequence[Any], params: Mapping[str, Any]) -> Rule | None:
    # Optax computes a power of the gradient whose exponent may be 1.
    return {1: _FIRST_POWER, 2: _SQUARE}.get(params["y"])


def _log2(value: jax.Array, **_: Any) -> jax.Array:
    """Returns the quotient of two logarithms, as JAX before 0.12 writes it in ``jnp.log2``."""
    log = elementary.FUNCTIONS["log"]
    return elementary.FUNCTIONS["div"](log(value), log(lax.full_like(value, 2)))


def _elementary(name: str, compute: Compute | None = None, **fields: Any) -> None:
    called = scope.or_native(functools.partial(native.call, name))
    compute = called(compute or elementary.FUNCTIONS[name])
    rule(name, compute=compute, is_elementwise=True, **fields)


_elementary("acos")
_elementary("acosh")
_elementary("asin")
_elementary("asinh")
_elementary("atan")
_elementary("atan2")
_elementary("atanh")
_elementary("cbrt")
_elementary("cos")
_elementary("cosh")
_elementary("digamma")
_elementary("erf")
_elementary("erf_inv")
_elementary("erfc")
_elementary("exp", of_complex=complex_numbers.exp)
_elementary("exp2")
_elementary("expm1")
_elementary("integer_pow", of_complex=complex_numbers.integer_pow, simpler=_simpler_power)
_elementary("lgamma")
_elementary("log", of_complex=complex_numbers.log)
_elementary("log1p")
_elementary("logistic")
_elementary("pow")
_elementary("rsqrt")
_elementary("sin")
_elementary("sinh")
_elementary("tan")
_elementary("tanh")
rule("abs", of_complex=complex_numbers.absolute)
_elementary("log2", _log2)
