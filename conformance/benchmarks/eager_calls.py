"""Small calls of every public op, and of the nearest function of plain JAX.

The arrays are so small that the computation takes no time: a benchmark of these calls measures the
work of Python and of JAX around it. For ``index_add``,

    Call("index_add", ours, plain, arrays)

``ours`` is ``impl.index_add(x, 0, i, s)`` and ``plain`` is ``x.at[i].add(s)``, of 16 numbers or so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.sparse import BCOO

import impl

#: The ops whose results have uninitialised memory, which JAX's equivalent fills.
_MAKERS = ("empty", "empty_like", "empty_permuted", "empty_strided")


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an op.

    Attributes:
        op: The name of the op, and in brackets the special feature of the call.
        ours: The call; it takes the arrays.
        plain: The same function of plain JAX, or the nearest; None where JAX has no such function.
        arrays: The arrays.
    """

    op: str
    ours: Callable[..., Any]
    plain: Callable[..., Any] | None
    arrays: tuple[Any, ...]

    def equivalent(self) -> Callable[..., Any]:
        """Returns what the call is compared with: plain JAX, or its own jitted function."""
        return jax.jit(self.ours) if self.plain is None else self.plain


def _numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def _indices(*values: int) -> jax.Array:
    return jnp.asarray(np.array(values, np.int32))


def _every_index() -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).integers(0, 8, (8, 8)).astype(np.int32))


def calls() -> Iterator[Call]:
    """Yields a call of every public op, and some more."""
    yield from _of_rows()
    yield from _of_indices()
    yield from _of_updates()
    yield from _of_products()
    yield from _of_memory()
    yield from _of_losses()
    yield from _of_spatial()
    yield from _of_pools()
    yield from _of_recurrent()


def _of_rows() -> Iterator[Call]:
    x = _numbers(8, 8)
    pairs: Mapping[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
        "argsort": (lambda x: impl.argsort(x, 0, stable=True), lambda x: jnp.argsort(x, axis=0)),
        "sort": (
            lambda x: impl.sort(x, 0, stable=True),
            lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=0)),
        ),
        "cummax": (lambda x: impl.cummax(x, 0), lambda x: lax.cummax(x, axis=0)),
        "cummin": (lambda x: impl.cummin(x, 0), lambda x: lax.cummin(x, axis=0)),
        "cumprod": (lambda x: impl.cumprod(x, 0), lambda x: jnp.cumprod(x, axis=0)),
        "cumsum": (lambda x: impl.cumsum(x, 0), lambda x: jnp.cumsum(x, axis=0)),
        "logcumsumexp": (
            lambda x: impl.logcumsumexp(x, 0),
            lambda x: lax.cumlogsumexp(x, axis=0),
        ),
        "histc": (lambda x: impl.histc(x, 5), lambda x: jnp.histogram(x, 5)),
        "kthvalue": (lambda x: impl.kthvalue(x, 3), lambda x: lax.top_k(x, 3)),
        "topk": (lambda x: impl.topk(x, 3), lambda x: lax.top_k(x, 3)),
        "median": (impl.median, jnp.median),
        "median (dim)": (lambda x: impl.median(x, 0), lambda x: jnp.median(x, axis=0)),
        "nanmedian": (impl.nanmedian, jnp.nanmedian),
        "mode": (impl.mode, lambda x: jax.scipy.stats.mode(x, axis=1)),
        "resize": (lambda x: impl.resize(x, 4, 4), lambda x: jnp.resize(x, (4, 4))),
    }
    for op, (ours, plain) in pairs.items():
        yield Call(op, ours, plain, (x,))


def _of_indices() -> Iterator[Call]:
    x, i, every = _numbers(8, 8), _indices(1, 2, 3), _every_index()
    mask, counts = jnp.asarray(np.asarray(x) > 0), _indices(1, 0, 5, 1, 1, 1, 1, 1)
    yield Call("bincount", impl.bincount, jnp.bincount, (i,))
    yield Call(
        "bincount (length)",
        lambda i: impl.bincount(i, length=8),
        lambda i: jnp.bincount(i, length=8),
        (i,),
    )
    yield Call(
        "gather",
        lambda x, i: impl.gather(x, 0, i),
        lambda x, i: jnp.take_along_axis(x, i, axis=0),
        (x, every),
    )
    yield Call(
        "take_along_dim",
        lambda x, i: impl.take_along_dim(x, i, 0),
        lambda x, i: jnp.take_along_axis(x, i, axis=0),
        (x, every),
    )
    yield Call("getitem", impl.getitem, lambda x, i: x[i], (x, i))
    yield Call("getitem (mask)", impl.getitem, lambda x, mask: x[mask], (x, mask))
    yield Call(
        "getitem (slice)",
        lambda x: impl.getitem(x, (slice(None), 2)),
        lambda x: x[:, 2],
        (x,),
    )
    yield Call(
        "index_select",
        lambda x, i: impl.index_select(x, 0, i),
        lambda x, i: jnp.take(x, i, axis=0),
        (x, i),
    )
    yield Call("take", impl.take, jnp.take, (x, i))
    yield Call(
        "repeat_interleave",
        lambda x: impl.repeat_interleave(x, 2, 0),
        lambda x: jnp.repeat(x, 2, axis=0),
        (x,),
    )
    yield Call(
        "repeat_interleave (array)",
        lambda x, n: impl.repeat_interleave(x, n, 0),
        lambda x, n: jnp.repeat(x, n, axis=0),
        (x, counts),
    )


def _of_updates() -> Iterator[Call]:
    x, i, every = _numbers(8, 8), _indices(1, 2, 3), _every_index()
    rows, column = _numbers(3, 8), _indices(*range(8))
    pairs: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "index_add": (lambda x, i, v: impl.index_add(x, 0, i, v), lambda x, i, v: x.at[i].add(v)),
        "index_copy": (lambda x, i, v: impl.index_copy(x, 0, i, v), lambda x, i, v: x.at[i].set(v)),
        "index_put": (lambda x, i, v: impl.index_put(x, (i,), v), lambda x, i, v: x.at[i].set(v)),
        "index_put (add)": (
            lambda x, i, v: impl.index_put(x, (i,), v, accumulate=True),
            lambda x, i, v: x.at[i].add(v),
        ),
        "index_reduce": (
            lambda x, i, v: impl.index_reduce(x, 0, i, v, "prod"),
            lambda x, i, v: x.at[i].multiply(v),
        ),
    }
    for op, (ours, plain) in pairs.items():
        yield Call(op, ours, plain, (x, i, rows))
    yield Call(
        "put",
        impl.put,
        lambda x, i, v: jnp.put(x, i, v, inplace=False),
        (x, i, _numbers(3)),
    )
    pairs = {
        "scatter": (
            lambda x, i, v: impl.scatter(x, 0, i, v),
            lambda x, i, v: jnp.put_along_axis(x, i, v, axis=0, inplace=False),
        ),
        "scatter_add": (
            lambda x, i, v: impl.scatter_add(x, 0, i, v),
            lambda x, i, v: x.at[i, column].add(v),
        ),
        "scatter_reduce": (
            lambda x, i, v: impl.scatter_reduce(x, 0, i, v, "prod"),
            lambda x, i, v: x.at[i, column].multiply(v),
        ),
    }
    for op, (ours, plain) in pairs.items():
        yield Call(op, ours, plain, (x, every, x))


def _of_products() -> Iterator[Call]:
    x, batch = _numbers(8, 8), _numbers(2, 8, 8)
    diagonal = jnp.asarray(np.repeat(np.arange(8, dtype=np.int32)[:, None], 2, 1))
    sparse = BCOO((_numbers(8), diagonal), shape=(8, 8))
    yield Call("mm", impl.mm, jnp.matmul, (x, x))
    yield Call("mm (sparse)", impl.mm, lambda a, b: a @ b, (sparse, x))
    yield Call("sparse.mm", impl.sparse.mm, lambda a, b: a @ b, (sparse, x))
    yield Call("mv", impl.mv, jnp.matmul, (x, _numbers(8)))
    yield Call("bmm", impl.bmm, jnp.matmul, (batch, batch))


def _of_memory() -> Iterator[Call]:
    x = _numbers(8, 8)
    ours = (
        lambda: impl.empty(2, 3),
        lambda: impl.empty_like(x),
        lambda: impl.empty_permuted((2, 3), (1, 0)),
        lambda: impl.empty_strided((2, 3), (1, 2)),
    )
    for op, call in zip(_MAKERS, ours, strict=True):
        yield Call(op, call, lambda: jnp.empty((2, 3)), ())
    yield Call("new_empty", lambda x: impl.new_empty(x, 2, 3), lambda _: jnp.empty((2, 3)), (x,))
    yield Call(
        "new_empty_strided",
        lambda x: impl.new_empty_strided(x, (2, 3), (1, 2)),
        lambda _: jnp.empty((2, 3)),
        (x,),
    )


def _of_losses() -> Iterator[Call]:
    functional = impl.nn.functional
    logits, classes, i = _numbers(8, 8), _indices(*range(8)), _indices(1, 2, 3)
    yield Call("nn.functional.cross_entropy", functional.cross_entropy, _entropy, (logits, classes))
    yield Call("nn.functional.nll_loss", functional.nll_loss, _likelihood, (logits, classes))
    lengths, targets = (_indices(8, 8), _indices(3, 3)), _indices(1, 2, 3, 1, 2, 3)
    probabilities = _numbers(8, 2, 8)
    yield Call(
        "nn.functional.ctc_loss", functional.ctc_loss, None, (probabilities, targets, *lengths)
    )
    yield Call(
        "nn.functional.embedding",
        functional.embedding,
        lambda i, x: jnp.take(x, i, axis=0),
        (i, logits),
    )
    bags = _indices(0, 0, 1)
    yield Call(
        "nn.functional.embedding_bag",
        functional.embedding_bag,
        lambda i, x, _: jax.ops.segment_sum(x[i], bags, 2),
        (i, logits, _indices(0, 2)),
    )
    heads = _numbers(2, 3, 8, 8)
    yield Call(
        "nn.functional.scaled_dot_product_attention",
        functional.scaled_dot_product_attention,
        jax.nn.dot_product_attention,
        (heads, heads, heads),
    )


def _entropy(logits: jax.Array, classes: jax.Array) -> jax.Array:
    return _likelihood(jax.nn.log_softmax(logits, axis=1), classes)


def _likelihood(values: jax.Array, classes: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(values, classes[:, None], axis=1).mean()


def _of_spatial() -> Iterator[Call]:
    functional, images = impl.nn.functional, _numbers(2, 3, 8, 8)
    for dims in (1, 2, 3):
        x = _numbers(2, 3, *(8,) * dims)
        weight, ones = _numbers(4, 3, *(3,) * dims), (1,) * dims
        transposed = _numbers(3, 4, *(3,) * dims)
        yield Call(
            f"nn.functional.conv{dims}d",
            getattr(functional, f"conv{dims}d"),
            lambda x, w, ones=ones: lax.conv(x, w, ones, "VALID"),
            (x, weight),
        )
        layout = f"NC{'DHW'[-dims:]}", f"IO{'DHW'[-dims:]}", f"NC{'DHW'[-dims:]}"
        yield Call(
            f"nn.functional.conv_transpose{dims}d",
            getattr(functional, f"conv_transpose{dims}d"),
            lambda x, w, ones=ones, layout=layout: lax.conv_transpose(
                x, w, ones, "VALID", dimension_numbers=layout
            ),
            (x, transposed),
        )
    for mode, options in (("nearest", {}), ("bilinear", {"align_corners": False})):
        yield Call(
            f"nn.functional.interpolate ({mode})",
            lambda x, mode=mode, options=options: functional.interpolate(
                x, (16, 16), mode=mode, **options
            ),
            lambda x, mode=mode: jax.image.resize(x, (2, 3, 16, 16), mode),
            (images,),
        )
    edges = ((0, 0), (0, 0), (1, 1), (1, 1))
    for mode in ("constant", "reflect"):
        yield Call(
            f"nn.functional.pad ({mode})",
            lambda x, mode=mode: functional.pad(x, (1, 1, 1, 1), mode),
            lambda x, mode=mode: jnp.pad(x, edges, mode=mode),
            (images,),
        )
    yield Call(
        "nn.functional.affine_grid",
        lambda theta: functional.affine_grid(theta, (2, 3, 8, 8), False),
        None,
        (_numbers(2, 2, 3),),
    )
    yield Call(
        "nn.functional.grid_sample",
        lambda x, grid: functional.grid_sample(x, grid, align_corners=False),
        None,
        (images, _numbers(2, 4, 4, 2)),
    )


def _of_pools() -> Iterator[Call]:
    functional = impl.nn.functional
    for dims in (1, 2, 3):
        x, size = _numbers(2, 3, *(8,) * dims), (1, 1, *(2,) * dims)

        def average(x: jax.Array, size: tuple[int, ...] = size) -> Any:
            return lax.reduce_window(x, 0.0, lax.add, size, size, "VALID") / 2 ** (len(size) - 2)

        def greatest(x: jax.Array, size: tuple[int, ...] = size) -> Any:
            return lax.reduce_window(x, -jnp.inf, lax.max, size, size, "VALID")

        plain = {"avg_pool": average, "max_pool": greatest}
        for name in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool"):
            function = getattr(functional, f"{name}{dims}d", None)
            arguments = (2.0, 2) if name == "lp_pool" else (4,) if "adaptive" in name else (2,)
            if function is not None:
                yield Call(
                    f"nn.functional.{name}{dims}d",
                    lambda x, function=function, arguments=arguments: function(x, *arguments),
                    plain.get(name),
                    (x,),
                )
        values = _numbers(2, 3, *(4,) * dims)
        indices = jnp.asarray(
            np.arange(values.size, dtype=np.int32).reshape(values.shape) % 4**dims
        )
        unpool = getattr(functional, f"max_unpool{dims}d")
        yield Call(
            f"nn.functional.max_unpool{dims}d",
            lambda values, indices, unpool=unpool: unpool(values, indices, 2),
            None,
            (values, indices),
        )
        if dims > 1:
            function = getattr(functional, f"fractional_max_pool{dims}d")
            yield Call(
                f"nn.functional.fractional_max_pool{dims}d",
                lambda x, samples, function=function: function(x, 2, 4, _random_samples=samples),
                None,
                (x, jnp.asarray(np.full((2, 3, dims), 0.5, np.float32))),
            )


def _of_recurrent() -> Iterator[Call]:
    x, state = _numbers(4, 2, 8), _numbers(1, 2, 8)
    for name, gates in (("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)):
        weights = _numbers(8 * gates, 8)
        yield Call(
            f"nn.{name}",
            lambda x, h, w, name=name: getattr(impl.nn, name)(
                x, (h, h) if name == "lstm" else h, [w, w], False, 1, 0.0, False, False, False
            ),
            None,
            (x, state, weights),
        )
