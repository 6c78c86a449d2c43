"""Tokens of operations element by element.

A token, and an equation that it may write::

    token "is_finite", "lax.is_finite({0})"    v1 = lax.is_finite(v0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import ALL_FLOATS, COMPLEX, FLOATS, NUMBERS, token

_BOTH = (*ALL_FLOATS, *COMPLEX)
_CONSTANTS = ("0.0", "-0.0", "1.0", "-1.0", "2.0", "0.1", "3.0", "0.5")


def _unary(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_dtype(options.get("to", dtype)))


def _function(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an operand; some have arguments near 0 and 1, where values are near the middle."""
    if pool.is_bundle:
        operand = pool.argument(Aval((64,), dtype))
        return Choice((operand,), {}, pool.aval(operand))
    if pool.dice.happens(30):
        operand = pool.argument(Aval((60,), dtype), kind="ties")
        return Choice((operand,), {}, pool.aval(operand))
    return _unary(pool, dtype, options)


def _remainder(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws two operands; in half of the draws they have numbers with a subnormal remainder."""
    if pool.dice.happens(50):
        aval = Aval((60,), dtype)
        operands = (pool.argument(aval, kind="borders"), pool.argument(aval, kind="borders"))
        return Choice(operands, {}, aval)
    return _binary(pool, dtype, options)


def _with_number(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws one of ``numbers`` besides the operand."""
    operand = pool.pick(dtype)
    params = {"number": pool.dice.one_of(options["numbers"])}
    return Choice((operand,), params, pool.aval(operand).with_dtype(options.get("to", dtype)))


def _binary(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    second, is_broadcast = pool.beside(first)
    params = {"broadcasts": True} if is_broadcast else {}
    return Choice((first, second), params, pool.aval(first).with_dtype(options.get("to", dtype)))


def _used(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a value, and what it is multiplied by in each of its uses."""
    first, uses = pool.pick(dtype), options["uses"]
    aval = pool.aval(first)
    if pool.is_bundle and pool.dice.happens(70):
        return Choice((first, *pool.arguments_in_line(aval, uses)), {}, aval)
    return Choice((first, *(pool.like(aval) for _ in range(uses))), {}, aval)


def _ternary(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    aval = pool.aval(first)
    return Choice((first, pool.like(aval), pool.like(aval)), {}, aval)


def _selected(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype)
    aval = pool.aval(first)
    return Choice((pool.like(aval.with_dtype("bool")), first, pool.like(aval)), {}, aval)


def _converted(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype)
    wide = ("float64",) if pool.aval(operand).dtype == "float64" or pool.dice.happens(15) else ()
    to = pool.dice.one_of([each for each in (*FLOATS, *wide) if each != dtype] or FLOATS)
    return Choice((operand,), {"to": to}, pool.aval(operand).with_dtype(to))


_FUNCTIONS = """
acos acosh asin asinh atan atanh cbrt cos cosh erf erf_inv erfc exp2 expm1 log1p logistic sin sinh tan tanh
"""
for _name in _FUNCTIONS.split():
    token(_name, _function, f"lax.{_name}({{0}})", FLOATS, _name, weight=60, family="functions")
# A derivative of these is `polygamma`, which is refused.
for _name in ("digamma", "lgamma"):
    token(
        _name,
        _function,
        f"lax.{_name}({{0}})",
        FLOATS,
        _name,
        check="poles",
        weight=40,
        family="functions",
        has_derivative=False,
    )
for _name in ("exp", "log", "rsqrt", "sqrt"):
    token(
        _name,
        _function,
        f"lax.{_name}({{0}})",
        ALL_FLOATS,
        _name,
        weight=60,
        family="functions",
    )
for _name in ("ceil", "floor", "square"):
    token(_name, _unary, f"lax.{_name}({{0}})", ALL_FLOATS, _name)
for _name in ("neg", "abs", "sign"):
    token(_name, _unary, f"lax.{_name}({{0}})", NUMBERS, _name, check="same", family="extremes")
token("round", _unary, "lax.round({0}, lax.RoundingMethod.TO_NEAREST_EVEN)", ALL_FLOATS, "round")
token("log2", _unary, "jnp.log2({0})", FLOATS, "log2", check="loose", weight=40)
token("is_finite", _unary, "lax.is_finite({0})", ALL_FLOATS, "is_finite", check="same", to="bool")
token("stop_gradient", _unary, "lax.stop_gradient({0})", ALL_FLOATS, "", check="same")
token("copy", _unary, "jnp.array({0}, copy=True)", NUMBERS, "copy_p copy", check="same")
token(
    "barrier",
    _unary,
    "lax.optimization_barrier({0})",
    NUMBERS,
    "optimization_barrier",
    check="same",
)
# The guarantee leaves out what a NaN holds, so each becomes the same NaN.
token(
    "bits",
    _unary,
    "lax.bitcast_convert_type(jnp.where({0} == {0}, {0}, np.nan), np.int32)",
    ("float32",),
    "bitcast_convert_type select_n eq",
    check="none",
    has_derivative=False,
    weight=30,
    to="int32",
)
token(
    "reduce_precision",
    _unary,
    "lax.reduce_precision({0}, exponent_bits=5, mantissa_bits=7)",
    FLOATS,
    "reduce_precision",
    check="none",
)
token(
    "integer_pow",
    _with_number,
    "lax.integer_pow({0}, {number})",
    ALL_FLOATS,
    "integer_pow",
    family="functions",
    numbers=("-3", "-2", "-1", "2", "3", "4", "7", "41", "-35"),
)
token(
    "add_constant",
    _with_number,
    "{0} + {number}",
    ALL_FLOATS,
    "add",
    check="ieee",
    family="extremes",
    numbers=_CONSTANTS,
)
token(
    "subtract_constant",
    _with_number,
    "{0} - ({number})",
    ALL_FLOATS,
    "sub",
    check="ieee",
    numbers=_CONSTANTS,
)
token("scale", _with_number, "{0} * {number}", ALL_FLOATS, "mul", check="ieee", numbers=_CONSTANTS)
token(
    "divide_constant",
    _with_number,
    "{0} / {number}",
    ALL_FLOATS,
    "div",
    check="ieee",
    numbers=("3.0", "0.1"),
)
token("add_zeros", _unary, "jnp.zeros_like({0}) + {0}", _BOTH, "add", check="ieee")
token(
    "add_hidden_zeros",
    _unary,
    "{0} + jnp.where({0} == {0}, 0.0, 1.0).astype({0}.dtype)",
    FLOATS,
    "add",
    check="ieee",
)
token("relu", _unary, "jax.nn.relu({0})", FLOATS, "max", check="same", family="extremes")
for _name in ("silu", "softplus", "elu"):
    token(_name, _unary, f"jax.nn.{_name}({{0}})", FLOATS, "", check="loose", weight=40)
# A sum in it cancels.
token("gelu", _unary, "jax.nn.gelu({0})", FLOATS, "", check="none", weight=40)
for _name in ("add", "sub", "mul"):
    _dtypes = (*NUMBERS, *COMPLEX)
    token(_name, _binary, f"lax.{_name}({{0}}, {{1}})", _dtypes, _name, check="ieee", weight=200)
token("div", _binary, "lax.div({0}, {1})", _BOTH, "div", weight=120)
token("rem", _remainder, "lax.rem({0}, {1})", ALL_FLOATS, "rem", check="ieee", weight=200)
for _name in ("max", "min"):
    token(
        _name,
        _binary,
        f"lax.{_name}({{0}}, {{1}})",
        NUMBERS,
        _name,
        check="extreme",
        weight=150,
        family="extremes",
    )
for _name in ("pow", "atan2"):
    token(
        _name,
        _binary,
        f"lax.{_name}({{0}}, {{1}})",
        FLOATS,
        _name,
        weight=60,
        family="functions",
    )
token(
    "nextafter",
    _binary,
    "lax.nextafter({0}, {1})",
    ("float32",),
    "nextafter",
    check="none",
    has_derivative=False,
)

# It adds the greater operand and a logarithm: the sum of -0.69 and log(2) has few right digits.
token("logaddexp", _binary, "jnp.logaddexp({0}, {1})", FLOATS, "", check="cancelling", weight=40)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    token(
        _name,
        _binary,
        f"lax.{_name}({{0}}, {{1}})",
        NUMBERS,
        _name,
        check="same",
        weight=40,
        to="bool",
    )
token("product_and_sum", _ternary, "{0} * {1} + {2}", FLOATS, "mul add", check="none", weight=200)
token(
    "clamp",
    _ternary,
    "lax.clamp({0}, {1}, {2})",
    ALL_FLOATS,
    "clamp",
    check="none",
    family="extremes",
)
# Each use is a part of the derivative, which is their exact sum. Three parts, a few parts and many
# parts are added in different ways.
for _name, _count in (("three", 3), ("five", 5), ("seven", 7)):
    _uses = ", ".join(f"{{{i + 1}}}" for i in range(_count))
    token(
        f"used_{_name}_times",
        _used,
        f"jax.grad(lambda x: sum(jnp.sum(x * y) for y in ({_uses})))({{0}})",
        ALL_FLOATS,
        "mul",
        check="parts",
        weight=100,
        family="sums",
        uses=_count,
    )
token(
    "where", _selected, "lax.select({0}, {1}, {2})", (*NUMBERS, *COMPLEX), "select_n", check="same"
)
token(
    "convert",
    _converted,
    "lax.convert_element_type({0}, jnp.{to})",
    (*NUMBERS, "bool"),
    "convert_element_type",
)
for _name in ("and", "or", "xor"):
    token(
        f"bitwise_{_name}",
        _binary,
        f"lax.bitwise_{_name}({{0}}, {{1}})",
        ("int32", "bool"),
        _name,
        check="same",
        weight=20,
    )
for _name in ("bitwise_not", "population_count", "clz"):
    token(
        _name,
        _unary,
        f"lax.{_name}({{0}})",
        ("int32",),
        _name.removeprefix("bitwise_"),
        check="same",
        weight=20,
    )
for _name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
    token(
        _name, _binary, f"lax.{_name}({{0}}, {{1}} & 7)", ("int32",), _name, check="same", weight=20
    )
token(
    "complex",
    _binary,
    "lax.complex({0}, {1})",
    ("float32",),
    "complex",
    check="same",
    to="complex64",
)
for _name, _check in {"real": "complex", "imag": "complex", "abs": "magnitude"}.items():
    token(
        f"{_name}_part",
        _unary,
        f"lax.{_name}({{0}})",
        COMPLEX,
        _name,
        check=_check,
        to="float32",
    )
token("conj", _unary, "lax.conj({0})", COMPLEX, "conj", check="same")
for _name in ("exp", "log", "square"):
    token(
        f"complex_{_name}",
        _unary,
        f"lax.{_name}({{0}})",
        COMPLEX,
        _name,
        check="complex",
        weight=60,
    )
