"""The op ``scaled_dot_product_attention``.

Two queries and two keys of two features, with ``scale=1``::

    query              [0., 0.]      [log 3, 0.]
    key                [0., 0.]      [1., 0.]
    value              [4.]          [8.]
    scores             [0., 0.]      [0., log 3]         query @ key.mT
    softmax            [0.5, 0.5]    [0.25, 0.75]
    result             [6.]          [7.]
    is_causal=True     [4.]          [7.]                query 0 sees key 0 alone
    attn_mask          [6.]          [0.]                if it hides both keys from query 1
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import broadcasts_to
from impl._core.numerics import accumulator, convert
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide_both
from impl.nn import _dropout
from impl.nn._dropout import dropped
from impl.ops._op import op
from impl.ops._products import matmul

_NAME = "scaled_dot_product_attention"


@op("torch.nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Computes ``softmax(query @ key.mT * scale + attn_mask) @ value``, the softmax over the keys.

    float16 and bfloat16 are computed in float32 and rounded once.

    Memory: arrays of ... x queries x keys numbers; a gradient keeps one of them.

    Args:
        query: Shape [..., queries, features], floats.
        key: Shape [..., keys, features], of the same dtype.
        value: Shape [..., keys, outputs], of the same dtype. Batch dimensions broadcast.
        attn_mask: Bools, True for the keys that a query sees; or floats that are added to the
            scores, of float32 or of the dtype of ``query``. It broadcasts to [..., queries, keys].
            The result is 0 for a query that sees no key.
        dropout_p: The share of the weights that is dropped, in [0, 1]; the rest is divided by
            1 - ``dropout_p``.
        is_causal: Whether query i sees only the keys 0 to i, also if there are more keys than
            queries. Not together with ``attn_mask``.
        scale: The factor of the scores; None for 1 / sqrt(features).
        enable_gqa: Whether several heads of ``query`` share a head of ``key`` and of ``value``.
            Heads are dimension -3, and the first heads of ``query`` share the first head of
            ``key``.
        dropout_key: The JAX key that decides which weights are dropped, for example from
            ``impl.Generator.key()``. Equal keys drop the same weights. PyTorch draws them from its
            hidden generator. JAX has none, so a ``dropout_p`` above 0 needs a key.

    Returns:
        Shape [..., queries, outputs], of the dtype of ``query``.

    Raises:
        IndexError: ``enable_gqa`` is True, and an array has no dimension -3.
        NotImplementedError: The arrays are of complex numbers.
        RuntimeError: Shapes or dtypes do not fit; the arrays are of integers or bools; there are
            both ``attn_mask`` and ``is_causal``; or ``dropout_p`` is not in [0, 1].
        TypeError: Weights are to be dropped, and ``dropout_key`` is None.
    """
    arguments.flags(_NAME, is_causal=is_causal, enable_gqa=enable_gqa)
    named = {"query": query, "key": key, "value": value}
    operands = {name: arguments.array(_NAME, name, array) for name, array in named.items()}
    _check_operands(operands, grouped=enable_gqa)
    q = operands["query"]
    mask = _mask(attn_mask, operands, is_causal=is_causal, grouped=enable_gqa)
    share = _share(dropout_p, dropout_key)
    facts = arguments.facts(q)
    decision, pullback = decide_both(f"nn.functional.{_NAME}", **facts)
    if scale is None:
        scale = max(q.shape[-1], 1) ** -0.5
    factor = arguments.real(_NAME, "scale", scale)
    wide = accumulator(q.dtype)
    q_wide, k, v = (convert(operand, wide) for operand in operands.values())
    product = functools.partial(_product, grouped=enable_gqa)
    scores = product(q_wide * jnp.asarray(factor, wide), k.mT)
    if is_causal:
        rows, columns = (jax.lax.broadcasted_iota(int, scores.shape[-2:], i) for i in (0, 1))
        mask = rows >= columns
    if mask is not None:
        is_seen = mask.dtype == bool
        mask = jnp.broadcast_to(mask if is_seen else convert(mask, wide), scores.shape)
        scores = jnp.where(mask, scores, -jnp.inf) if is_seen else scores + mask
    weights = softmax(scores)
    if share > 0:
        assert dropout_key is not None  # noqa: S101  # narrows its type
        weights = dropped(weights, dropout_key, share)
    out = convert(product(weights, v), q.dtype)
    return alert(alert_pullback(out, pullback), decision)


def _check_operands(operands: dict[str, jax.Array], *, grouped: bool) -> None:
    """Refuses a query, a key and a value, given by name, that do not fit."""
    query, key, value = operands.values()
    if min(array.ndim for array in operands.values()) < 2:
        dims = ", ".join(f"{name}.ndim: {array.ndim}" for name, array in operands.items())
        raise RuntimeError(
            f"{_NAME}(): Expected query, key, and value to all be at least 2 "
            f"dimensional, but got {dims}"
        )
    if not query.dtype == key.dtype == value.dtype:
        dtypes = ", ".join(f"{name}.dtype: {array.dtype}" for name, array in operands.items())
        raise RuntimeError(
            f"{_NAME}(): Expected query, key, and value to have the same "
            f"dtype, but got {dtypes}; convert them"
        )
    kind = arguments.dtype_kind(query.dtype)
    error = NotImplementedError if kind == "complex" else RuntimeError
    arguments.check_kind(_NAME, query.dtype, "floating", error=error)
    if key.shape[-1] != query.shape[-1]:
        raise RuntimeError(
            f"{_NAME}(): Expected size {query.shape[-1]} in the last "
            f"dimension of key, as in query, but got shape {list(key.shape)}"
        )
    if value.shape[-2] != key.shape[-2]:
        raise RuntimeError(
            f"{_NAME}(): Expected size {key.shape[-2]} in dimension -2 of "
            f"value, as in key, but got shape {list(value.shape)}"
        )
    if grouped:
        _check_heads(operands)
    if _batch(operands, grouped=grouped) is None:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in operands.items())
        raise RuntimeError(
            f"{_NAME}(): The batch dimensions, which are all but the last "
            f"two, must match, but got shapes: {shapes}"
        )


def _check_heads(operands: dict[str, jax.Array]) -> None:
    """Refuses operands whose heads cannot be grouped."""
    for name, array in operands.items():
        if array.ndim < 3:
            raise IndexError(
                f"{_NAME}(): Dimension out of range: with enable_gqa=True, "
                f"{name} needs heads in dimension -3, but got shape {list(array.shape)}"
            )
    query, key, value = (array.shape[-3] for array in operands.values())
    if any(query % heads if heads else query for heads in (key, value)):
        raise RuntimeError(
            f"{_NAME}(): Number of heads in key and value must divide the "
            f"number of heads in query, but got {key}, {value} and {query}"
        )


def _batch(operands: dict[str, jax.Array], *, grouped: bool) -> tuple[int, ...] | None:
    """Returns the batch dimensions of the scores; None if the arrays do not fit."""
    query, key, value = (array.shape[:-2] for array in operands.values())
    if grouped:
        key, value = (*key[:-1], query[-1]), (*value[:-1], query[-1])
    try:
        scores = np.broadcast_shapes(query, key)
        np.broadcast_shapes(scores, value)
    except ValueError:
        return None
    return scores


def _mask(
    attn_mask: Any, operands: dict[str, jax.Array], *, is_causal: bool, grouped: bool
) -> jax.Array | None:
    """Returns the mask as an array, or None."""
    if attn_mask is None:
        return None
    mask = arguments.array(_NAME, "attn_mask", attn_mask)
    if is_causal:
        raise RuntimeError(
            f"{_NAME}(): Explicit attn_mask should not be set when is_causal=True; pass one of them"
        )
    query, key, _ = operands.values()
    if mask.dtype not in (np.bool_, np.float32, query.dtype):
        raise RuntimeError(
            f"{_NAME}(): Expected attn_mask dtype to be bool or float32 or to match query dtype, "
            f"but got attn_mask.dtype: {mask.dtype} and query.dtype: {query.dtype}"
        )
    batch = _batch(operands, grouped=grouped) or ()
    scores = (*batch, query.shape[-2], key.shape[-2])
    if not broadcasts_to(mask.shape, scores):
        raise RuntimeError(
            f"{_NAME}(): attn_mask must broadcast to the shape of the scores, "
            f"{list(scores)}, but got shape {list(mask.shape)}"
        )
    return mask


def _share(dropout_p: Any, dropout_key: Any) -> float:
    """Returns the share of the weights to drop."""
    share = _dropout.share_of(_NAME, "dropout_p", dropout_p)
    if dropout_key is not None:
        _dropout.check_key(_NAME, "dropout_key", dropout_key)
    elif share > 0:
        raise TypeError(
            f"{_NAME}(): argument 'dropout_key' is missing: dropout_p={dropout_p} draws the "
            "weights that it drops; pass a JAX key, such as impl.Generator(0).key()"
        )
    return share


def _product(a: jax.Array, b: jax.Array, *, grouped: bool) -> jax.Array:
    """Multiplies [..., m, k] by [..., k, n], where batch dimensions broadcast.

    If heads are grouped, ``a`` may have several times as many heads as ``b``, in dimension -3.
    """
    shape = a.shape
    if grouped:
        # The heads of a group become rows of one matrix.
        heads = b.shape[-3]
        group = shape[-3] // heads if heads else 1
        a = a.reshape(*shape[:-3], heads, group * shape[-2], shape[-1])
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = matmul(*(jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)))
    if grouped:
        batch = (*batch[:-1], shape[-3])
    return out.reshape(*batch, shape[-2], b.shape[-1])


@jax.custom_jvp
def softmax(scores: jax.Array) -> jax.Array:
    """Returns the softmax along the last axis; 0 where all scores are minus infinity."""
    greatest = scores.max(-1, keepdims=True, initial=-jnp.inf)
    exponentials = jnp.exp(scores - jnp.maximum(greatest, jnp.finfo(scores.dtype).min))
    # The exponential of the greatest score is 1, unless all are 0.
    return exponentials / jnp.maximum(exponentials.sum(-1, keepdims=True), 1)


@softmax.defjvp
def _softmax_jvp(primals: Any, tangents: Any) -> Any:
    weights, (tangent,) = softmax(*primals), tangents
    return weights, weights * (tangent - (weights * tangent).sum(-1, keepdims=True))
