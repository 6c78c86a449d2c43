"""Tokens of products, convolutions, decompositions and transforms.

A token, and an equation that it may write::

    token "matmul", "{0} @ {1}"                v2 = v0 @ v1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Choice, Pool
from conformance.hunt.program import Aval
from conformance.hunt.tokens.token import COMPLEX, FLOATS, TOKENS, token


def _product(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a matrix or a batch of rows, and a matrix of weights."""
    first = pool.pick(dtype, least=1, most=2)
    aval = pool.aval(first)
    count = pool.dice.one_of((1, 3, 4, 8))
    second = pool.like(Aval((aval.shape[-1], count), dtype))
    to = options.get("to", dtype)
    return Choice((first, second), {}, aval.with_shape(*aval.shape[:-1], count).with_dtype(to))


def _batched(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws two arrays that share their first axis."""
    first = pool.pick(dtype, least=2, most=2)
    aval = pool.aval(first)
    lead = aval.shape[:-2]
    if not lead:
        aval = Aval((2, *aval.shape), dtype)
        first = pool.like(aval)
        lead = (2,)
    count = pool.dice.one_of((1, 3, 4))
    second = pool.like(aval.with_shape(*lead, count, aval.shape[-1]))
    return Choice((first, second), {}, aval.with_shape(*lead, aval.shape[-2], count))


def _contracted(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, least=1, most=3)
    aval = pool.aval(first)
    axes = "cdefg"[: len(aval.shape)]
    kept = axes[: pool.dice.between(1 if aval.rows else 0, len(axes) - 1)]
    second = pool.like(Aval(aval.shape[len(kept) :], dtype))
    params = {"subscripts": f"{axes},{axes[len(kept) :]}->{kept}"}
    return Choice((first, second), params, aval.with_shape(*aval.shape[: len(kept)]))


def _evaluated(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a point of a polynomial, and its coefficients.

    With one coefficient, JAX before 0.12 multiplies 0 by the point, and JAX 0.12 does not.
    """
    point = pool.pick(dtype, most=2)
    coefficients = pool.like(Aval((pool.dice.between(2, 5),), dtype))
    return Choice((point, coefficients), {}, pool.aval(point))


def _squared(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    operand = pool.pick(dtype, least=2, most=2, rows=False)
    aval = pool.aval(operand)
    return Choice((operand,), {}, aval.with_shape(aval.shape[0], aval.shape[0]))


def _ragged(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    first = pool.pick(dtype, least=2, most=2, rows=False, nonempty=True)
    rows, inner = pool.aval(first).shape
    groups, count = pool.dice.one_of((1, 2, 3)), pool.dice.one_of((1, 4))
    second = pool.like(Aval((groups, inner, count), dtype))
    cut = pool.dice.between(0, rows)
    sizes = [cut, rows - cut, 0][:groups] if groups > 1 else [rows]
    return Choice((first, second), {"sizes": sizes}, Aval((rows, count), dtype))


def _convolved(pool: Pool, dtype: str, _: Mapping[str, Any]) -> Choice:
    """Draws a convolution of one axis, with strides, dilations, padding and groups."""
    dice = pool.dice
    rows = bool(pool.rows) and dice.happens(60)
    batch = pool.rows if rows else dice.one_of((1, 2, 3))
    groups = dice.one_of((1, 1, 2))
    channels, outputs = groups * dice.between(1, 3), groups * dice.between(1, 2)
    size, taps = dice.one_of((4, 7, 8)), dice.between(1, 3)
    stride, dilation, spread = dice.between(1, 2), dice.between(1, 2), dice.between(1, 2)
    if pool.is_bundle:
        size, taps = dice.one_of((16, 24)), dice.one_of((2, 3, 12, 16))
        channels, outputs, dilation = groups, groups * 4, 1
    padding = [dice.between(0, 2), dice.between(0, 2)]
    wide = (size - 1) * spread + 1 + sum(padding) - ((taps - 1) * dilation + 1)
    image = pool.like(Aval((batch, channels, size), dtype, rows))
    kernel = pool.like(Aval((outputs, channels // groups, taps), dtype))
    params = {
        "stride": stride,
        "padding": padding,
        "spread": spread,
        "dilation": dilation,
        "groups": groups,
    }
    shape = (batch, outputs, max(wide // stride + 1, 0))
    return Choice((image, kernel), params, Aval(shape, dtype, rows))


def _square(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws a square matrix, and a right side for a solution."""
    size = pool.dice.one_of((1, 2, 3, 5))
    kind = "plain" if pool.dice.happens(80) else "few"
    operand = pool.argument(Aval((size, size), dtype), kind=kind)
    right = pool.like(Aval((size, 2), dtype))
    shape = {"matrix": (size, size), "right": (size, 2), "values": (size,), "number": ()}
    return Choice((operand, right), {}, Aval(shape[options["result"]], dtype))


def _transformed(pool: Pool, dtype: str, options: Mapping[str, Any]) -> Choice:
    """Draws an operand; a float64 has no products that are subnormal."""
    if dtype == "float64":
        operand = pool.argument(Aval(pool.shape(2, nonempty=True), dtype), kind="plain")
    else:
        operand = pool.pick(dtype, least=1, nonempty=True)
    aval = pool.aval(operand)
    if options.get("halves"):
        aval = aval.with_shape(*aval.shape[:-1], aval.shape[-1] // 2 + 1)
    return Choice(
        (operand,), {}, aval.with_dtype("complex128" if dtype == "float64" else "complex64")
    )


token(
    "matmul",
    _product,
    "{0} @ {1}",
    (*FLOATS, *COMPLEX),
    "dot_general",
    check="product_of",
    weight=300,
    family="products",
)
token(
    "matmul_wide",
    _product,
    "jnp.matmul({0}, {1}, preferred_element_type=np.float32)",
    ("bfloat16", "float16"),
    "dot_general",
    check="product_of",
    family="products",
    to="float32",
)
token(
    "batched_product",
    _batched,
    "jnp.einsum('...ik,...jk->...ij', {0}, {1})",
    FLOATS,
    "dot_general",
    check="product_of",
    weight=150,
    family="products",
)
token(
    "einsum",
    _contracted,
    "jnp.einsum('{subscripts}', {0}, {1})",
    FLOATS,
    "dot_general",
    check="contraction",
    weight=200,
    family="products",
)
token(
    "polyval",
    _evaluated,
    "jnp.polyval(jnp.abs({1}) + 1, jnp.clip({0}, -4, 4))",
    FLOATS,
    "polynomial",
    check="none",
    weight=400,
)
token(
    "gram",
    _squared,
    "{0} @ {0}.T",
    FLOATS,
    "dot_general",
    check="product_of",
    weight=100,
    family="products",
)
token(
    "triple_use",
    _square,
    "jnp.einsum('ij,jk,ki->', {0}, {0}, {0})",
    FLOATS,
    "dot_general",
    check="none",
    weight=200,
    result="number",
)
token(
    "ragged_dot",
    _ragged,
    "lax.ragged_dot({0}, {1}, np.array({sizes}, np.int32))",
    ("float32", "bfloat16"),
    "ragged_dot_general",
    check="none",
    weight=60,
)
token(
    "conv",
    _convolved,
    "lax.conv_general_dilated({0}, {1}, ({stride},), [{padding}], lhs_dilation=({spread},), "
    "rhs_dilation=({dilation},), feature_group_count={groups})",
    FLOATS,
    "conv_general_dilated",
    check="convolution",
    weight=200,
    family="convolutions",
)
_ONES = "{0} @ {0}.T + jnp.eye({0}.shape[0], dtype={0}.dtype)"
token(
    "cholesky",
    _square,
    f"lax.linalg.cholesky({_ONES}, symmetrize_input=False)",
    ("float32",),
    "cholesky",
    check="none",
    weight=250,
    result="matrix",
)
token(
    "cho_solve",
    _square,
    f"jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor({_ONES}, lower=True), {{1}})",
    ("float32",),
    "cholesky triangular_solve",
    check="none",
    weight=150,
    result="right",
)
token(
    "solve",
    _square,
    "jnp.linalg.solve({0}, {1})",
    ("float32",),
    "lu triangular_solve",
    check="none",
    weight=60,
    result="right",
)
# spec/releases_of_jax.toml lists `det`, and the derivative of this function.
token(
    "slogdet",
    _square,
    "jnp.linalg.slogdet({0})[1]",
    ("float32",),
    "lu",
    check="none",
    weight=40,
    has_derivative=False,
    result="number",
)
token(
    "qr",
    _square,
    "jnp.linalg.qr({0})[1]",
    ("float32",),
    "geqrf qr",
    check="none",
    weight=40,
    result="matrix",
)
token(
    "q",
    _square,
    "jnp.linalg.qr({0})[0]",
    ("float32",),
    "householder_product",
    check="none",
    weight=30,
    result="matrix",
)
token(
    "triangular_solve",
    _square,
    "lax.linalg.triangular_solve({0}, {1}, left_side=True, lower=True)",
    ("float32",),
    "triangular_solve",
    check="none",
    weight=60,
    result="right",
)
token(
    "eigh",
    _square,
    "jnp.linalg.eigh({0})[0]",
    ("float32", "float64"),
    "eigh",
    check="eigenvalues",
    weight=40,
    family="decompositions",
    has_derivative=False,
    result="values",
)
token(
    "svd",
    _square,
    "jnp.linalg.svd({0}, compute_uv=False)",
    ("float32", "float64"),
    "svd",
    check="singular_values",
    weight=40,
    family="decompositions",
    has_derivative=False,
    result="values",
)
token(
    "fft",
    _transformed,
    "jnp.fft.fft({0})",
    ("float32", *COMPLEX),
    "fft",
    check="transform",
    weight=40,
    family="decompositions",
)
token(
    "rfft",
    _transformed,
    "jnp.fft.rfft({0})",
    ("float32",),
    "fft",
    check="transform",
    weight=40,
    family="decompositions",
    halves=True,
)
# The derivatives have products of float64, which have no portable path.
for _name in ("rfft", "solve", "slogdet", "qr", "q", "triangular_solve"):
    _of_floats = TOKENS[_name]
    token(
        f"{_name}_of_doubles",
        _of_floats.form,
        _of_floats.expression,
        ("float64",),
        " ".join(_of_floats.primitives),
        check=_of_floats.check,
        has_derivative=False,
        weight=_of_floats.weight,
        family="decompositions",
        **_of_floats.options,
    )
token(
    "cholesky_of_doubles",
    _square,
    "lax.linalg.cholesky({0} + {0}.T + 9 * {0}.shape[0] * jnp.eye({0}.shape[0]))",
    ("float64",),
    "cholesky",
    check="none",
    has_derivative=False,
    weight=40,
    family="decompositions",
    result="matrix",
)
