"""The functions of ``impl._exact`` that JAX's primitives are lowered as under ``portable``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from impl._exact import arithmetic, elementary
from impl._exact.elementary import gamma
from impl._exact.linear_algebra import fourier, householder, rotations, triangular
from impl._exact.products import convolution, dot_general
from impl._exact.running import cumlogsumexp, cumprod
from impl._exact.sums import reduction, scatter, windows
from impl._kernels.launch import Launch


def function(name: str) -> Callable[..., Any]:
    """Returns the function of a primitive, which takes the parameters of the equation.

    Args:
        name: The name of the primitive.
    """
    return _FUNCTIONS.get(name) or elementary.FUNCTIONS[name]


def on_platforms(
    name: str, function: Callable[..., Any], platforms: Sequence[str], *, is_partitioned: bool
) -> Callable[..., Any]:
    """Returns the function of a primitive as some platforms compute it, with the same bits.

    Args:
        name: The name of the primitive.
        function: The function.
        platforms: The platforms that the program is for.
        is_partitioned: Whether XLA may cut it over devices.
    """
    if name == "cumsum":
        return functools.partial(function, is_partitioned=is_partitioned)
    if name == "dot_general":
        return functools.partial(function, platforms=platforms)
    if name == "conv_general_dilated":
        # The libraries of devices other than a CPU may compute it by a transform. XLA's partitioner
        # gives wrong values, or ends the process, where it cuts groups or the taps of a kernel.
        by_products = is_partitioned or arithmetic.are_kept_on(platforms)
        return functools.partial(function, by_products=by_products)
    return function


def _log2(value: jax.Array, **_: Any) -> jax.Array:
    """Returns the quotient of two logarithms, as JAX before 0.12 writes it in ``jnp.log2``."""
    log = elementary.FUNCTIONS["log"]
    return elementary.FUNCTIONS["div"](log(value), log(jax.lax.full_like(value, 2)))


def _reduce_sum(value: jax.Array, *, axes: Any, **_: Any) -> jax.Array:
    return reduction.reduce_sum(value, tuple(axes))


def _scatter_add(
    *operands: jax.Array,
    subtract: bool = False,
    dimension_numbers: Any,
    mode: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    place: scatter.Place,
    launch: Launch | None = None,
    **_: Any,
) -> jax.Array:
    return scatter.scatter_add(
        *operands,
        dimension_numbers=dimension_numbers,
        mode=mode,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        subtract=subtract,
        place=place,
        launch=launch,
    )


def _dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    platforms: Sequence[str],
    **_: Any,
) -> jax.Array:
    return dot_general.dot_general(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        platforms=platforms,
    )


def _without(*names: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns a function that ignores parameters, such as a sharding, of which types have none."""

    def run(*operands: jax.Array, **params: Any) -> jax.Array:
        kept = {name: value for name, value in params.items() if name not in names}
        return function(*operands, **kept)

    return run


def _psum(value: jax.Array, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> jax.Array:
    return reduction.reduce_sum(
        value,
        tuple(axis for axis in axes if isinstance(axis, int)),
        axis_names=tuple(axis for axis in axes if not isinstance(axis, int)),
        axis_index_groups=axis_index_groups,
    )


def _reduce_scatter(
    value: jax.Array,
    *,
    axis_name: Any,
    scatter_dimension: int,
    axis_index_groups: Any,
    tiled: bool,
    **_: Any,
) -> jax.Array:
    return reduction.reduce_scatter(
        value,
        axis_name,
        scatter_dimension=scatter_dimension,
        axis_index_groups=axis_index_groups,
        tiled=tiled,
    )


def _reduce_prod(value: jax.Array, *, axes: Any, **_: Any) -> jax.Array:
    return cumprod.reduce_prod(value, tuple(axes))


def _cumlogsumexp(value: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return cumlogsumexp.cumlogsumexp(value, axis, reverse=reverse)


def _cumprod(value: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return cumprod.cumprod(value, axis, reverse=reverse)


def _cumsum(value: jax.Array, *, axis: int, reverse: bool, is_partitioned: bool) -> jax.Array:
    return reduction.cumsum(value, axis, reverse=reverse, is_partitioned=is_partitioned)


#: Those that return several arrays.
SEVERAL = frozenset({"eigh", "geqrf", "lu", "svd"})
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cholesky": triangular.cholesky,
    "conv_general_dilated": _without("out_sharding", function=convolution.conv_general_dilated),
    "cumlogsumexp": _cumlogsumexp,
    "cumprod": _cumprod,
    "cumsum": _cumsum,
    "digamma": gamma.digamma,
    "dot_general": _dot_general,
    "eigh": rotations.eigh,
    "fft": fourier.fft,
    "geqrf": householder.geqrf,
    "householder_product": householder.householder_product,
    "ormqr": householder.ormqr,
    "lgamma": gamma.lgamma,
    "log2": _log2,
    "lu": triangular.lu,
    "psum": _psum,
    "psum_invariant": _psum,
    "reduce_prod": _reduce_prod,
    "reduce_scatter": _reduce_scatter,
    "reduce_sum": _reduce_sum,
    "reduce_window_sum": windows.reduce_window_sum,
    "scatter-add": _scatter_add,
    "scatter-sub": functools.partial(_scatter_add, subtract=True),
    "select_and_scatter_add": windows.select_and_scatter_add,
    "svd": rotations.svd,
    "triangular_solve": triangular.triangular_solve,
}
