"""Running sums, products and logarithms of sums of exponentials along an axis, and a recurrence.

The recurrence ``h[i] = factors[i] * h[i - 1] + terms[i]`` is what derivatives of the others are
made of: no division, so that a zero in a product is a factor like any other.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.scan_combines import Running
from impl._core.shard_axes import aligned
from impl._lowerings import scan as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert
from impl._primitives.arithmetic import multiply


def scan(
    values: jax.Array, *, decision: Decision, by: Running = "add", reverse: bool = False
) -> jax.Array:
    """Running folds along the middle axis of [outer, n, inner], of the dtype of ``values``.

    On the ordered path they are in the spec's blocked scan order, of the flipped axis where
    ``reverse``.

    Args:
        values: Shape [outer, n, inner].
        decision: What each platform does.
        by: ``add``, ``mul``, or ``logaddexp``; the last is for floats and complex numbers.
        reverse: Whether to go from right to left.
    """
    return primitives[by].bind(values, decision=decision, reverse=reverse)  # type: ignore[no-any-return]


def recurrence(
    factors: jax.Array, terms: jax.Array, *, decision: Decision, reverse: bool = False
) -> jax.Array:
    """``h`` where ``h[i] = factors[i] * h[i - 1] + terms[i]`` and ``h[0] = terms[0]``.

    The order is that of ``scan``, of the maps ``h -> factor * h + term``; products are rounded
    before they are added.

    Args:
        factors: Shape [outer, n, inner]; the first is not used.
        terms: Of that shape and dtype.
        decision: What each platform does.
        reverse: Whether ``h[i + 1]`` takes the place of ``h[i - 1]``, from the last on.
    """
    operands = aligned(factors, terms)
    return primitives["affine"].bind(*operands, decision=decision, reverse=reverse)  # type: ignore[no-any-return]


def shifted(values: jax.Array, *, reverse: bool) -> jax.Array:
    """Along the middle axis, the value before each (after it, if ``reverse``), and 1 at the end."""
    if values.shape[1] == 0:
        return values
    end = jnp.ones_like(values[:, :1])
    ends = (values[:, 1:], end) if reverse else (end, values[:, :-1])
    return jnp.concatenate(ends, axis=1)


def _abstract(values: Any, *others: Any, decision: Decision, reverse: bool) -> Any:
    return values.update(weak_type=False)


def _batch(by: Running, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    moved = [_common.move_batch(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitives[by].bind(*map(_common.fold, moved), **params)
    return out.reshape(moved[0].shape), 0


def _paths(by: Running) -> dict[Any, _common.Lowerings]:
    def of(function: Any) -> Any:
        return functools.partial(function, by=by)

    ordered = _common.Lowerings(of(lowerings.cpu), of(lowerings.xla), of(lowerings.kernel))
    if by != "add":  # For no other is there an atomic.
        return {"atomic": ordered, "ordered": ordered}
    fast = of(lowerings.xla_sum)
    return {"atomic": _common.Lowerings(fast, fast, of(lowerings.any_sum)), "ordered": ordered}


_NAMES: dict[Running, str] = {
    "add": "samebits_scan",
    "mul": "samebits_scan_mul",
    "logaddexp": "samebits_scan_logaddexp",
    "affine": "samebits_recurrence",
}
primitives = {by: _common.new_primitive(name, _abstract, _paths(by)) for by, name in _NAMES.items()}
for _by, _primitive in primitives.items():
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _by)


def _jvp_of_sum(primals: Any, tangents: Any, **params: Any) -> Any:
    out = scan(*primals, **params)
    if type(tangents[0]) is ad.Zero:
        return out, _common.zero_tangent(out)
    return out, scan(*tangents, **params)


def _transpose_sum(cotangent: Any, values: Any, *, decision: Decision, reverse: bool) -> Any:
    if type(cotangent) is ad.Zero:
        return (ad.Zero(values.aval),)
    cotangent = alert(cotangent, decision)
    return (scan(cotangent, decision=decision, reverse=not reverse),)


def _jvp_of_product(primals: Any, tangents: Any, *, decision: Decision, reverse: bool) -> Any:
    (values,), (dot,) = primals, tangents
    out = scan(values, decision=decision, by="mul", reverse=reverse)
    if type(dot) is ad.Zero:
        return out, _common.zero_tangent(out)
    terms = multiply(shifted(out, reverse=reverse), dot)
    return out, recurrence(values, terms, decision=decision, reverse=reverse)


def _jvp_of_logaddexp(primals: Any, tangents: Any, *, decision: Decision, reverse: bool) -> Any:
    (values,), (dot,) = primals, tangents
    out = scan(values, decision=decision, by="logaddexp", reverse=reverse)
    if type(dot) is ad.Zero:
        return out, _common.zero_tangent(out)
    # The share that each sum has of the one before, and of the last value.
    factors = _share(shifted(out, reverse=reverse), out)
    terms = multiply(_share(values, out), dot)
    return out, recurrence(factors, terms, decision=decision, reverse=reverse)


def _share(part: jax.Array, whole: jax.Array) -> jax.Array:
    """``exp(part - whole)``; that of minus infinity is 0, also in a sum of nothing else."""
    nothing = part.real == -jnp.inf
    # Both are kept from the other arm, whose derivative would be NaN there.
    difference = jnp.where(nothing, 0, part) - jnp.where(nothing, 0, whole)
    return jnp.where(nothing, 0, jnp.exp(difference))


def _jvp_of_recurrence(primals: Any, tangents: Any, *, decision: Decision, reverse: bool) -> Any:
    (factors, terms), (factors_dot, terms_dot) = primals, tangents
    out = recurrence(factors, terms, decision=decision, reverse=reverse)
    if all(type(tangent) is ad.Zero for tangent in tangents):
        return out, _common.zero_tangent(out)
    total = None if type(terms_dot) is ad.Zero else terms_dot
    if type(factors_dot) is not ad.Zero and out.shape[1] > 0:
        before = shifted(out, reverse=reverse)
        end = (slice(None), slice(-1, None) if reverse else slice(1))
        added = multiply(before.at[end].set(0), factors_dot)  # the first factor is not used
        total = added if total is None else total + added
    if total is None:
        return out, _common.zero_tangent(out)
    return out, recurrence(factors, total, decision=decision, reverse=reverse)


def _transpose_recurrence(
    cotangent: Any, factors: Any, terms: Any, *, decision: Decision, reverse: bool
) -> Any:
    if type(cotangent) is ad.Zero:
        return None, ad.Zero(terms.aval)
    cotangent = alert(cotangent, decision)
    back = shifted(factors, reverse=not reverse)
    return None, recurrence(back, cotangent, decision=decision, reverse=not reverse)


scan_p = primitives["add"]
ad.primitive_jvps[scan_p] = _jvp_of_sum
ad.primitive_transposes[scan_p] = _transpose_sum
ad.primitive_jvps[primitives["mul"]] = _jvp_of_product
ad.primitive_jvps[primitives["logaddexp"]] = _jvp_of_logaddexp
ad.primitive_jvps[primitives["affine"]] = _jvp_of_recurrence
ad.primitive_transposes[primitives["affine"]] = _transpose_recurrence
