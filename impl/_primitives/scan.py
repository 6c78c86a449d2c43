"""Running sums, products and logarithms of sums of exponentials along an axis, and a recurrence.

The recurrence ``h[i] = factors[i] * h[i - 1] + terms[i]`` computes the derivatives of the running
products and logarithms. It needs no division, so a product may have a zero among its factors:

    values           v       [2., 0., 3.]        running products    p     [2., 0., 0.]
    tangents         dv      [1., 1., 1.]        terms               p[i - 1] * dv[i]
    recurrence       h[i] = v[i] * h[i - 1] + terms[i]                     [1., 2., 6.]

``tangents_p`` is this recurrence as one primitive of a fold, its result and its tangents, so that
a kernel computes the factors and the terms where it uses them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.interpreters import ad, batching

from impl._core.jax_internals import Primitive
from impl._core.shard_axes import aligned
from impl._families.scan_combines import Running
from impl._lowerings import scan as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert
from impl._primitives.arithmetic import multiply


def scan(
    values: jax.Array, *, decision: Decision, by: Running = "add", reverse: bool = False
) -> jax.Array:
    """Computes running folds along the middle axis of [outer, n, inner].

    On the ordered path they are in the spec's blocked scan order; with ``reverse``, in this order
    along the flipped axis.

    Args:
        values: Shape [outer, n, inner].
        decision: The decision of this call.
        by: ``add``, ``mul``, or ``logaddexp``, which takes floats and complex numbers.
        reverse: Whether to fold from right to left.

    Returns:
        Shape and dtype of ``values``.
    """
    return primitives[by].bind(values, decision=decision, reverse=reverse)  # type: ignore[no-any-return]


def recurrence(
    factors: jax.Array,
    terms: jax.Array,
    *,
    decision: Decision,
    reverse: bool = False,
    lagged: bool = False,
) -> jax.Array:
    """Computes ``h`` where ``h[i] = factors[i] * h[i - 1] + terms[i]`` and ``h[0] = terms[0]``.

    The order is the order of ``scan``, applied to the maps ``h -> factor * h + term``. Products are
    rounded before they are added.

    Args:
        factors: Shape [outer, n, inner]; the first is not used.
        terms: The shape and dtype of ``factors``.
        decision: The decision of this call.
        reverse: Whether to start at the end, with ``h[i + 1]`` instead of ``h[i - 1]``.
        lagged: Whether each step uses the factor of the step before.
    """
    operands = aligned(factors, terms)
    return primitives["affine"].bind(  # type: ignore[no-any-return]
        *operands, decision=decision, reverse=reverse, lagged=lagged
    )


def _abstract(values: Any, *others: Any, **_: Any) -> Any:
    return values.update(weak_type=False)


def _batch(primitive: Primitive, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    batched = [_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitive.bind(*map(_common.merge_batch, batched), **params)
    return out.reshape(batched[0].shape), 0


def _ordered(by: Running) -> _common.Lowerings:
    xla, kernel = (
        functools.partial(function, by=by)
        for function in (lowerings.ordered_xla, lowerings.ordered_kernel)
    )
    return _common.Lowerings(xla, xla, kernel)


_NAMES: dict[Running, str] = {
    "add": "samebits_scan",
    "mul": "samebits_scan_mul",
    "logaddexp": "samebits_scan_logaddexp",
    "affine": "samebits_recurrence",
}
primitives = {
    by: _common.new_primitive(
        name,
        _abstract,
        _ordered(by),
        # With the mode off a running sum is JAX's own, in another order than the spec's.
        _common.Lowerings.without_kernel(lowerings.sum_xla, lowerings.sum_xla)
        if by == "add"
        else None,
        axes=Axes("o.i, o.i -> o.i" if by == "affine" else "o.i -> o.i"),
        adds=False,  # The lowerings isolate their operands.
    )
    for by, name in _NAMES.items()
}
_tangents = _common.Lowerings(
    lowerings.tangents_xla, lowerings.tangents_xla, lowerings.tangents_kernel
)
#: The tangents of a running product, or of a running logarithm of a sum of exponentials. The
#: operands are [outer, n, inner] values, their running folds ``by``, and tangents of the values.
#: With ``transposed``, from cotangents of the folds to cotangents of the values.
tangents_p = _common.new_primitive(
    "samebits_scan_tangents",
    _abstract,
    _tangents,
    axes=Axes("o.i, o.i, o.i -> o.i"),
    adds=False,
)
for _primitive in (*primitives.values(), tangents_p):
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)


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


def _jvp_of_fold(
    by: Running, primals: Any, tangents: Any, *, decision: Decision, reverse: bool
) -> Any:
    (values,), (dot,) = primals, tangents
    out = scan(values, decision=decision, by=by, reverse=reverse)
    if type(dot) is ad.Zero:
        return out, _common.zero_tangent(out)
    operands = aligned(values, out, dot)
    how = {"decision": decision, "by": by, "reverse": reverse, "transposed": False}
    return out, tangents_p.bind(*operands, **how)


def _jvp_of_tangents(primals: Any, tangents: Any, *, decision: Decision, **how: Any) -> Any:
    bind = functools.partial(tangents_p.bind, decision=decision, **how)
    out = bind(*primals)
    changed = [k for k, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]
    if not changed:
        return out, _common.zero_tangent(out)
    *fixed, _ = primals
    if changed == [len(fixed)]:
        return out, bind(*aligned(*fixed, tangents[-1]))

    def by_equations(*some: jax.Array) -> jax.Array:
        # Unlike ``tangents_p``, these equations can be differentiated by each operand.
        arrays = list(primals)
        for k, array in zip(changed, some, strict=True):
            arrays[k] = array
        by_decision = functools.partial(recurrence, decision=decision)
        return lowerings.tangents(*arrays, recurrence=by_decision, times=multiply, **how)

    return jax.jvp(by_equations, [primals[k] for k in changed], [tangents[k] for k in changed])


def _transpose_tangents(
    cotangent: Any, values: Any, out: Any, dot: Any, *, transposed: bool, **how: Any
) -> Any:
    if type(cotangent) is ad.Zero:
        return None, None, ad.Zero(dot.aval)
    cotangent = alert(cotangent, how["decision"])
    operands = aligned(values, out, cotangent)
    return None, None, tangents_p.bind(*operands, transposed=not transposed, **how)


def _jvp_of_recurrence(
    primals: Any, tangents: Any, *, decision: Decision, reverse: bool, lagged: bool
) -> Any:
    (factors, terms), (factors_dot, terms_dot) = primals, tangents
    if lagged:
        factors = lowerings.shifted(factors, reverse=reverse)
        if type(factors_dot) is not ad.Zero:
            factors_dot = lowerings.shifted(factors_dot, reverse=reverse)
    out = recurrence(factors, terms, decision=decision, reverse=reverse)
    if all(type(tangent) is ad.Zero for tangent in tangents):
        return out, _common.zero_tangent(out)
    total = None if type(terms_dot) is ad.Zero else terms_dot
    if type(factors_dot) is not ad.Zero and out.shape[1] > 0:
        before = lowerings.shifted(out, reverse=reverse)
        first = (slice(None), slice(-1, None) if reverse else slice(1))
        added = multiply(before.at[first].set(0), factors_dot)  # The first factor is not used.
        total = added if total is None else total + added
    if total is None:
        return out, _common.zero_tangent(out)
    return out, recurrence(factors, total, decision=decision, reverse=reverse)


def _transpose_recurrence(
    cotangent: Any, factors: Any, terms: Any, *, decision: Decision, reverse: bool, lagged: bool
) -> Any:
    if type(cotangent) is ad.Zero:
        return None, ad.Zero(terms.aval)
    cotangent = alert(cotangent, decision)
    if lagged:
        factors = lowerings.shifted(factors, reverse=reverse)
    out = recurrence(factors, cotangent, decision=decision, reverse=not reverse, lagged=True)
    return None, out


scan_p = primitives["add"]
ad.primitive_jvps[scan_p] = _jvp_of_sum
ad.primitive_transposes[scan_p] = _transpose_sum
for _by in ("mul", "logaddexp"):
    ad.primitive_jvps[primitives[_by]] = functools.partial(_jvp_of_fold, _by)
ad.primitive_jvps[tangents_p] = _jvp_of_tangents
ad.primitive_transposes[tangents_p] = _transpose_tangents
ad.primitive_jvps[primitives["affine"]] = _jvp_of_recurrence
ad.primitive_transposes[primitives["affine"]] = _transpose_recurrence
