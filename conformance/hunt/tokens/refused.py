"""Tokens that the guarantee refuses by name, and a primitive of another library that it takes.

A token, and the message in place of a result::

    token "igamma"    lax.igamma of float32[8], float32[8] has no portable path: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.tokens.token import FLOATS, token


def _pair(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, nonempty=True)
    aval = pool.aval(first)
    return Choice((first, pool.like(aval)), {}, aval.with_dtype(options.get("to", dtype)))


def _one(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=1, rows=False, nonempty=True)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_shape(*aval.shape[options.get("loses", 0) :]))


token(
    "foreign_sine",
    _one,
    "foreign_sine({0})",
    FLOATS,
    "",
    check="loose",
    has_derivative=False,
    weight=40,
)
_REFUSED = {
    "igamma": (_pair, "lax.igamma(jnp.abs({0}) + 1, jnp.abs({1}))", "igamma"),
    "zeta": (_pair, "lax.zeta(jnp.abs({0}) + 2, jnp.abs({1}) + 1)", "zeta"),
    "bessel": (_one, "lax.bessel_i0e({0})", "bessel_i0e"),
    "polygamma": (_one, "lax.polygamma(jnp.ones_like({0}), {0})", "polygamma"),
    "callback": (_one, "jax.pure_callback(lambda x: x, {0}, {0})", "pure_callback"),
    "calls_itself": (_one, "calls_itself({0})", ""),
    "terms_of_devices": (_one, "with_terms_of_devices({0})", "dot_general"),
    "calls_another": (_one, "calls_another({0})", ""),
}
for _name, (_form, _expression, _primitive) in _REFUSED.items():
    _dtypes = FLOATS if _form is _one else ("float32",)
    token(
        _name,
        _form,
        _expression,
        _dtypes,
        _primitive,
        check="none",
        has_derivative=False,
        refused=True,
    )
token(
    "reduce_by_function",
    _one,
    "lax.reduce({0}, np.array(0, {0}.dtype), lambda x, y: x + y + x * y, (0,))",
    FLOATS,
    "reduce",
    check="none",
    has_derivative=False,
    refused=True,
    loses=1,
)
token(
    "product_in_float64",
    _pair,
    "jnp.vdot({0}, {1}, preferred_element_type=np.float64) + {0}",
    FLOATS,
    "dot_general",
    check="none",
    has_derivative=False,
    refused=True,
    to="float64",
)
