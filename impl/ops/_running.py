"""Running sums, products, maxima and minima along a dimension, by JAX's own primitives.

Derivatives of running logarithms of sums of exponentials, and under ``portable`` of running
products, are the recurrence ``h[i] = factors[i] * h[i - 1] + terms[i]`` (Blelloch, "Prefix Sums and
Their Applications", CMU-CS-90-190, 1990). It divides by no value, so a factor may be zero::

    y[i]  = x[i] * y[i - 1]
    dy[i] = x[i] * dy[i - 1] + y[i - 1] * dx[i]      factors x[i], terms y[i - 1] * dx[i]

For the logarithm, a factor is ``exp(y[i - 1] - y[i])``, and ``dx[i]`` has the weight
``exp(x[i] - y[i])``. JAX's own derivative is NaN where a sum of exponentials is zero.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import zero_from_primal

from impl import _jax
from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode import modes
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide
from impl._mode.modes import sum_dtype
from impl.ops._op import op
from impl.ops._selection import Indexed, lanes

#: A running fold along an axis.
Scan: TypeAlias = Callable[[jax.Array, int], jax.Array]
Pair: TypeAlias = tuple[jax.Array, jax.Array]
#: With no more lanes than this, XLA for a CPU finds running extremes fastest along all at once.
_FEW_LANES = 16


@op("torch.cumsum")
def cumsum(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Computes cumulative sums along one dimension.

    Args:
        input: Any shape and dtype.
        dim: The dimension along which elements are added.
        dtype: The dtype to which ``input`` is converted first. With None, integers and bools become
            int64 (int32 where x64 is off) and other dtypes stay. A conversion from complex to real
            numbers discards the imaginary part, with a warning.

    Returns:
        An array of the shape of ``input``. float16 and bfloat16 are added in float32 and rounded
        once.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``dtype`` is bool.
    """
    return _total("cumsum", _sums, input, dim, dtype)


@op("torch.cumprod")
def cumprod(input: Array, dim: int, *, dtype: jax.typing.DTypeLike | None = None) -> jax.Array:
    """Computes cumulative products along one dimension.

    If a product of some elements overflows and another is 0, the products after both may be NaN.

    Arguments, results and exceptions are as for ``cumsum``.
    """
    return _total("cumprod", _products, input, dim, dtype)


@op("torch.logcumsumexp")
def logcumsumexp(input: Array, dim: int) -> jax.Array:
    """Computes logarithms of cumulative sums of exponentials along one dimension.

    Args:
        input: Any shape, floats or complex numbers.
        dim: The dimension along which exponentials are added.

    Returns:
        An array of the shape and dtype of ``input``. float16 and bfloat16 are computed in float32
        and rounded once. Imaginary parts are not reduced to [-pi, pi].

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is of integers or bools.
    """
    input = arguments.array("logcumsumexp", "input", input)
    dim = arguments.dimension(dim, input.ndim, "logcumsumexp")
    arguments.check_kind("logcumsumexp", input.dtype, "floating", "complex")
    return _along("logcumsumexp", _logarithms, input, dim)


@op("torch.cummax")
def cummax(input: Array, dim: int) -> Indexed:
    """Computes cumulative maxima along one dimension, and their indices.

    Args:
        input: Any shape, real numbers or bools. From a NaN on, every result is NaN. -0 equals 0.
        dim: The dimension along which the results accumulate.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        If several elements are equal, the index of the last one is returned. The gradient of a
        value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is complex.
    """
    return _extreme("cummax", lax.cummax, input, dim)


@op("torch.cummin")
def cummin(input: Array, dim: int) -> Indexed:
    """Computes cumulative minima along one dimension, and their indices.

    Arguments, results and exceptions are as for ``cummax``.
    """
    return _extreme("cummin", lax.cummin, input, dim)


def _total(
    function: str, scan: Scan, input: Array, dim: int, dtype: jax.typing.DTypeLike | None
) -> jax.Array:
    """Computes cumulative sums or products of ``input``, converted to ``dtype`` first."""
    input = arguments.array(function, "input", input)
    dim = arguments.dimension(dim, input.ndim, function)
    if dtype is None:
        integral = arguments.dtype_kind(input.dtype) in ("integer", "bool")
        values = input.astype(jnp.result_type(int)) if integral else input
    else:
        values = _converted(function, input, dtype)
    return _along(function, scan, values, dim)


def _converted(function: str, input: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    try:
        target = jnp.dtype(dtype)
    except TypeError as error:
        raise arguments.wrong_type(function, "dtype", "a dtype or None", dtype) from error
    kind = arguments.dtype_kind(target)
    if target == jnp.bool_ or not jnp.issubdtype(target, jnp.number):
        raise NotImplementedError(
            f"{function}(): not implemented for dtype {target}; pass an integer, floating point or "
            "complex dtype"
        )
    if jnp.iscomplexobj(input) and kind != "complex":
        eager.refuse()  # A compiled program would warn at its first call alone.
        warnings.warn(
            f"{function}(): casting {input.dtype} to {target} discards the imaginary part",
            UserWarning,
            stacklevel=4,
        )
        input = input.real
    return input.astype(target)


def _along(function: str, scan: Scan, values: jax.Array, dim: int) -> jax.Array:
    """Computes a running fold of ``values``, of their dtype."""
    decision = decide(function, **arguments.facts(values))
    result = scan(_widened(lanes(alert(values, decision), dim)), dim)
    return _like(alert_pullback(convert(result, values.dtype), decision), values)


def _widened(values: jax.Array) -> jax.Array:
    """Returns floats as `sum_dtype`, in which results and derivatives are computed."""
    is_float = arguments.dtype_kind(values.dtype) == "floating"
    return convert(values, sum_dtype(values.dtype)) if is_float else values


def _like(result: jax.Array, values: jax.Array) -> jax.Array:
    """Returns a result with the shape and the sharding of the values."""
    return _jax.shard_like(result.reshape(values.shape), jax.typeof(values))


def _differentiable(scan: Scan, coefficients: Callable[..., Pair]) -> Scan:
    """Returns a fold whose tangents are a recurrence.

    Args:
        scan: The fold.
        coefficients: Maps values, the folds before them and the folds to factors and weights.
    """
    fold = jax.custom_jvp(scan, nondiff_argnums=(1,))

    @fold.defjvp
    def _(axis: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Any:
        wide = accumulator(primals[0].dtype)
        values, dots = (convert(each, wide) for each in (*primals, *tangents))
        folds = fold(values, axis)
        edges = [(int(each == axis), -int(each == axis), 0) for each in range(values.ndim)]
        before = lax.pad(folds, jnp.ones((), wide), edges)
        factors, weights = coefficients(values, before, folds)
        _, result = lax.associative_scan(_affine, (factors, weights * dots), axis=axis)
        # A narrow fold is rounded once, from float64, so it is not the rounded wide fold.
        return fold(*primals, axis), convert(result, primals[0].dtype)

    return fold


def _affine(earlier: Pair, later: Pair) -> Pair:
    """Composes maps from h to factor * h + term."""
    return earlier[0] * later[0], earlier[1] * later[0] + later[1]


def _fraction(part: jax.Array, total: jax.Array) -> jax.Array:
    """Returns ``exp(part - total)``, and 0 for every part of minus infinity."""
    is_zero = part.real == -jnp.inf
    # Both operands are masked too. Otherwise the derivative of the unused branch would be NaN.
    difference = where(is_zero, 0, part) - where(is_zero, 0, total)
    return where(is_zero, 0, jnp.exp(difference))


def _sums(values: jax.Array, axis: int) -> jax.Array:
    if jnp.iscomplexobj(values):  # ``portable`` has no running sum of complex numbers.
        return lax.complex(lax.cumsum(values.real, axis), lax.cumsum(values.imag, axis))
    return lax.cumsum(values, axis)


def _products(values: jax.Array, axis: int) -> jax.Array:
    if not modes.current().portable:
        return lax.cumprod(values, axis)
    # JAX's own derivative would also compute the products anew, in another order and in float32.
    return _portable_products(values, axis)


def _products_of(values: jax.Array, axis: int) -> jax.Array:
    if jnp.iscomplexobj(values):  # ``portable`` has no running product of them.
        return lax.associative_scan(lax.mul, values, axis=axis)  # type: ignore[no-any-return]
    return lax.cumprod(values, axis)


def _logarithms_of(values: jax.Array, axis: int) -> jax.Array:
    if jnp.iscomplexobj(values):
        parts = values.real, values.imag
        return lax.complex(*lax.associative_scan(_complex_logaddexp, parts, axis=axis))
    if modes.current().portable:
        return lax.cumlogsumexp(values, axis)
    # XLA for a CPU takes 10 to 40 times as long for ``lax.cumlogsumexp``.
    return lax.associative_scan(jnp.logaddexp, values, axis=axis)  # type: ignore[no-any-return]


def _complex_logaddexp(earlier: Pair, later: Pair) -> Pair:
    """Returns the logarithm of a sum of exponentials; ``jnp.logaddexp`` reduces its angle."""
    swap = earlier[0] < later[0]
    most = [where(swap, b, a) for a, b in zip(earlier, later, strict=True)]
    least = [where(swap, a, b) for a, b in zip(earlier, later, strict=True)]
    size = jnp.exp(least[0] - most[0])
    angle = least[1] - most[1]
    # The sum is exp(most) * (1 + re + i * im). An exponential of 0 contributes nothing, even if
    # its angle is infinite or NaN.
    none = least[0] == -jnp.inf
    re = where(none, 0, size * jnp.cos(angle))
    im = where(none, 0, size * jnp.sin(angle))
    # Each of the two forms of log|1 + re + i * im| cancels where the other is accurate.
    near = 0.5 * jnp.log1p(re * (2 + re) + im * im)
    far = 0.5 * jnp.log((1 + re) * (1 + re) + im * im)
    grown = where(size < 0.5, near, far)
    turned = jnp.arctan2(im, 1 + re)
    return most[0] + where(none, 0, grown), most[1] + where(none, 0, turned)


_portable_products = _differentiable(_products_of, lambda x, before, _: (x, before))
# The fraction of each sum that comes from the sum before it, and from its own value.
_logarithms = _differentiable(
    _logarithms_of, lambda x, before, y: (_fraction(before, y), _fraction(x, y))
)


def _extreme(function: str, scan: Scan, input: Array, dim: int) -> Indexed:
    """Computes cumulative maxima or minima of ``input``, and their indices."""
    input = arguments.array(function, "input", input)
    dim = arguments.dimension(dim, input.ndim, function)
    if arguments.dtype_kind(input.dtype) == "complex":
        raise NotImplementedError(
            f"{function}(): not implemented for {input.dtype}; complex numbers have no order, take "
            "the absolute value or a part"
        )
    facts = arguments.facts(input)
    decision = decide(function, **facts, reduce=f"a{function[3:]}")
    values = _widened(lanes(alert(input, decision), dim))
    extremes, last = _indexed(scan, values, dim)
    extremes = alert_pullback(convert(extremes, input.dtype), decide(function, "backward", **facts))
    return Indexed(_like(extremes, input), _like(last.astype(jnp.result_type(int)), input))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def _indexed(scan: Scan, values: jax.Array, dim: int) -> Pair:
    """Returns running extremes, each the element at an index, and the indices."""
    last = _last(scan, values, dim, _by_scans)
    return _elements(values, last, dim), last


@_indexed.defjvp
def _(scan: Scan, dim: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Any:
    last = _last(scan, primals[0], dim, _by_pairs)
    extremes, tangent = (_elements(each, last, dim) for each in (*primals, *tangents))
    return (extremes, last), (tangent, zero_from_primal(last))


def _last(scan: Scan, values: jax.Array, dim: int, default: Callable[..., Any]) -> jax.Array:
    """Returns the index of the last element so far that equals the extreme. -0 equals 0."""
    numbers = values.astype(jnp.int8) if values.dtype == jnp.bool_ else values
    default = functools.partial(default, scan, dim)
    if numbers.size < _FEW_LANES * max(numbers.shape[dim], 1):
        return default(numbers)  # type: ignore[no-any-return]
    by_rows = functools.partial(_by_rows, scan, dim)
    return lax.platform_dependent(numbers, cpu=by_rows, default=default)  # type: ignore[no-any-return]


def _by_scans(scan: Scan, dim: int, numbers: jax.Array) -> jax.Array:
    is_extreme = (numbers == scan(numbers, dim)) | (numbers != numbers)  # noqa: PLR0124  # a NaN
    places = lax.broadcasted_iota(jnp.int32, numbers.shape, dim)
    return lax.cummax(where(is_extreme, places, 0), dim)


def _by_pairs(scan: Scan, dim: int, numbers: jax.Array) -> jax.Array:
    # A scan of pairs runs in half the time of two scans on a CPU, and is compiled in five times the
    # time: as long as JAX's own derivative of a running extreme.
    places = vary_like(lax.broadcasted_iota(jnp.int32, numbers.shape, dim), numbers)
    later = functools.partial(_later, scan)
    # JAX adds zeros to the numbers of such a scan, and -0 becomes 0.
    return lax.associative_scan(later, (numbers, places), axis=dim)[1]  # type: ignore[no-any-return]


def _by_rows(scan: Scan, dim: int, numbers: jax.Array) -> jax.Array:
    rows = jnp.moveaxis(numbers, dim, 0)
    start = rows[0], vary_like(jnp.zeros(rows.shape[1:], jnp.int32), rows)

    def step(before: Pair, at: Pair) -> tuple[Pair, jax.Array]:
        taken = _later(scan, before, at)
        return taken, taken[1]

    _, last = lax.scan(step, start, (rows, jnp.arange(len(rows), dtype=jnp.int32)))
    return jnp.moveaxis(last, 0, dim)


def _later(scan: Scan, a: Pair, b: Pair) -> Pair:
    """Returns the later of two elements, with its index, if it is the extreme of both."""
    is_extreme = (lax.ge if scan is lax.cummax else lax.le)(b[0], a[0])
    is_taken = is_extreme | (b[0] != b[0])
    return where(is_taken, b[0], a[0]), where(is_taken, b[1], a[1])


def _elements(values: jax.Array, index: jax.Array, dim: int) -> jax.Array:
    return jnp.take_along_axis(values, index, dim, mode="promise_in_bounds")
