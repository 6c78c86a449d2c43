"""The samples of the ops of ``impl`` and ``impl.sparse``."""

import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

from impl.tests.every_op.sample import Sample, apart
from impl.tests.support.numbers import near_one, spread

RNG = np.random.default_rng(7)
#: Twenty indices from 0 to 2, each of them several times; the same for three columns.
INDEX = RNG.integers(0, 3, 20)
COLUMNS = RNG.integers(0, 3, (20, 3))
THREE = spread(RNG, (3, 3))
TWENTY = spread(RNG, (20, 3))
#: Factors whose products stay in range.
THREE_FACTORS, TWENTY_FACTORS = near_one((3, 3)), near_one((20, 3), seed=1)
THREE_APART, TWENTY_APART = apart(3, 3) + np.float32(1 / 32), apart(20, 3)
#: Indices that count from the end too.
WRAPPED = RNG.integers(-3, 3, 20)


def _sparse_matrix(namespace, data, indices, shape):
    """Returns a sparse matrix of shape [*batch, rows, columns] of JAX or of PyTorch."""
    if namespace.__name__ == "torch":
        return namespace.sparse_coo_tensor(indices.T, data, shape, check_invariants=True)
    return BCOO((jnp.asarray(data), jnp.asarray(indices)), shape=shape)


POSITIONS = np.stack([RNG.integers(0, 4, 9), RNG.integers(0, 5, 9)], 1)
BATCH_POSITIONS = np.concatenate([RNG.integers(0, 2, (9, 1)), POSITIONS], 1)
DATA = spread(RNG, 9)
MATRIX = spread(RNG, (5, 2))


def _sparse_product(op):
    return lambda ns, data, indices, dense: op(ns)(_sparse_matrix(ns, data, indices, (4, 5)), dense)


def _reductions(op, index, cases):
    """Returns samples of scatter_reduce or index_reduce; extremes are of distinct numbers."""
    for reduce, include_self in cases:
        arrays = {"prod": (THREE_FACTORS, TWENTY_FACTORS)}.get(reduce, (THREE, TWENTY))
        if reduce in ("amax", "amin"):
            arrays = (THREE_APART, TWENTY_APART)
        yield Sample(
            lambda ns, x, i, s, reduce=reduce, include_self=include_self: getattr(ns, op)(
                x, 0, i, s, reduce, include_self=include_self
            ),
            (arrays[0], index, arrays[1]),
            variant=reduce if include_self else f"{reduce}-without-self",
            same_bits=reduce != "mean",
        )


def _cumulative(op, x, **options):
    return (Sample(lambda ns, x: getattr(ns, op)(x, 0), (x,), **options),)


def _fresh(call, *arrays):
    """Returns the sample of an op that makes an array; PyTorch fills memory in its mode only."""
    return (Sample(call, arrays, like_torch=False, smooth=False, uses_values=False),)


SAMPLES = {
    "argsort": (Sample(lambda ns, x: ns.argsort(x, dim=0, stable=True), (TWENTY_APART,)),),
    "bincount": (
        Sample(
            lambda ns, i, w: ns.bincount(i, w, length=3),
            (INDEX, TWENTY[:, 0]),
            torch=lambda torch, i, w: torch.bincount(i, w, 3),
            gradient_like_torch=False,
        ),
    ),
    "bmm": (
        Sample(
            lambda ns, a, b: ns.bmm(a, b),
            (spread(RNG, (2, 3, 5)), spread(RNG, (2, 5, 2))),
            same_bits=False,
        ),
        Sample(
            lambda ns, data, indices, b: ns.bmm(_sparse_matrix(ns, data, indices, (2, 4, 5)), b),
            (DATA, BATCH_POSITIONS, spread(RNG, (2, 5, 2))),
            variant="sparse",
            same_bits=False,
        ),
    ),
    "cummax": _cumulative("cummax", TWENTY_APART),
    "cummin": _cumulative("cummin", TWENTY_APART),
    "cumprod": _cumulative("cumprod", TWENTY_FACTORS, same_bits=False),
    # XLA compiles a short sum without a loop.
    "cumsum": (
        *_cumulative("cumsum", TWENTY),
        *_cumulative("cumsum", THREE, variant="short", transformed=False),
    ),
    "empty": _fresh(lambda ns: ns.empty(2, 3)),
    "empty_like": _fresh(lambda ns, x: ns.empty_like(x), THREE),
    "empty_permuted": _fresh(lambda ns: ns.empty_permuted((2, 3), (1, 0))),
    "empty_strided": _fresh(lambda ns: ns.empty_strided((2, 3), (1, 2))),
    "gather": (Sample(lambda ns, x, i: ns.gather(x, 0, i), (THREE, COLUMNS)),),
    "getitem": (
        Sample(lambda ns, x, i: ns.getitem(x, i), (THREE, WRAPPED), torch=lambda _, x, i: x[i]),
        Sample(
            lambda ns, x, i: ns.getitem(x, (i, slice(None), i[::-1])),
            (spread(RNG, (3, 2, 3)), WRAPPED),
            torch=lambda _, x, i: x[i, :, i.flip(0)],
            variant="two-arrays",
        ),
        Sample(
            lambda ns, x, i: ns.getitem(x, (slice(None), i)),
            (THREE, np.array(-2)),
            torch=lambda _, x, i: x[:, i],
            variant="int",
        ),
    ),
    "histc": (
        Sample(lambda ns, x: ns.histc(x, 5), (TWENTY,), smooth=False, gradient_like_torch=False),
    ),
    "index_add": (
        Sample(
            lambda ns, x, i, s: ns.index_add(x, 1, i, s, alpha=0.5),
            (THREE, INDEX, spread(RNG, (3, 20))),
        ),
    ),
    "index_copy": (
        Sample(
            lambda ns, x, i, s: ns.index_copy(x, 0, i, s),
            (THREE, INDEX, TWENTY),
            gradient_like_torch=False,
        ),
    ),
    "index_put": (
        Sample(
            lambda ns, x, i, v: ns.index_put(x, (i,), v),
            (THREE, WRAPPED, TWENTY),
            gradient_like_torch=False,
        ),
        Sample(
            lambda ns, x, i, v: ns.index_put(x, (None, i), v, accumulate=True),
            (THREE, WRAPPED, spread(RNG, (3, 20))),
            torch=lambda torch, x, i, v: torch.ops.aten.index_put(x, [None, i], v, True),
            variant="add",
        ),
        Sample(
            lambda ns, x, m, v: ns.index_put(x, (m,), v),
            (THREE, COLUMNS[:3] > 0, spread(RNG, ())),
            variant="masked",
        ),
    ),
    "index_reduce": tuple(
        _reductions(
            "index_reduce",
            INDEX,
            [("prod", True), ("mean", False), ("amax", False), ("amin", True)],
        )
    ),
    "index_select": (Sample(lambda ns, x, i: ns.index_select(x, 0, i), (THREE, INDEX)),),
    "kthvalue": (Sample(lambda ns, x: ns.kthvalue(x, 9, 0), (TWENTY_APART,)),),
    # XLA's exponentials differ by a unit in the last place between programs.
    "logcumsumexp": _cumulative("logcumsumexp", TWENTY_FACTORS, same_bits=False),
    "median": (
        Sample(lambda ns, x: ns.median(x), (TWENTY_APART,)),
        Sample(lambda ns, x: ns.median(x, 0), (TWENTY_APART,), variant="dim"),
    ),
    "mm": (
        Sample(lambda ns, a, b: ns.mm(a, b), (spread(RNG, (3, 5)), MATRIX), same_bits=False),
        Sample(
            _sparse_product(lambda ns: ns.mm),
            (DATA, POSITIONS, MATRIX),
            variant="sparse",
            same_bits=False,
        ),
    ),
    "mode": (Sample(lambda ns, x: ns.mode(x, 0), (TWENTY_APART,)),),
    "mv": (
        Sample(lambda ns, a, b: ns.mv(a, b), (spread(RNG, (3, 5)), MATRIX[:, 0]), same_bits=False),
        Sample(
            _sparse_product(lambda ns: ns.mv),
            (DATA, POSITIONS, MATRIX[:, 0]),
            variant="sparse",
            transformed=False,
        ),
    ),
    "nanmedian": (
        Sample(lambda ns, x: ns.nanmedian(x), (TWENTY_APART,), transformed=False),
        Sample(lambda ns, x: ns.nanmedian(x, 0), (TWENTY_APART,), variant="dim"),
    ),
    "new_empty": _fresh(lambda ns, x: ns.new_empty(x, 2, 3), THREE),
    "new_empty_strided": _fresh(lambda ns, x: ns.new_empty_strided(x, (2, 3), (1, 2)), THREE),
    "put": (
        Sample(
            lambda ns, x, i, s: ns.put(x, i, s),
            (THREE, 3 * WRAPPED, TWENTY[:, 0]),
            torch=lambda _, x, i, s: x.put(i, s),
            gradient_like_torch=False,
        ),
        Sample(
            lambda ns, x, i, s: ns.put(x, i, s, accumulate=True),
            (THREE, 3 * WRAPPED, TWENTY[:, 0]),
            torch=lambda _, x, i, s: x.put(i, s, accumulate=True),
            variant="add",
        ),
    ),
    "repeat_interleave": (
        Sample(
            lambda ns, x, r: ns.repeat_interleave(x, r, 0, output_size=6),
            (THREE, np.array([1, 0, 5])),
        ),
    ),
    "resize": (
        Sample(lambda ns, x: ns.resize(x, 2, 3), (THREE,), torch=lambda _, x: x[:2]),
        # New elements are NaN, and PyTorch fills memory in its mode only.
        Sample(
            lambda ns, x: ns.resize(x, 2, 8),
            (THREE,),
            variant="longer",
            like_torch=False,
            smooth=False,
        ),
    ),
    "scatter": (
        Sample(
            lambda ns, x, i, s: ns.scatter(x, 0, i, s),
            (THREE, COLUMNS, TWENTY),
            gradient_like_torch=False,
        ),
        Sample(
            lambda ns, x, i, s: ns.scatter(x, 0, i, s, reduce="multiply"),
            (THREE_FACTORS, COLUMNS, TWENTY_FACTORS),
            torch=lambda torch, x, i, s: torch.scatter_reduce(x, 0, i, s, "prod"),
            variant="multiply",
        ),
    ),
    "scatter_add": (
        Sample(
            lambda ns, x, i, s: ns.scatter_add(x, 1, i, s), (THREE, COLUMNS.T, spread(RNG, (3, 20)))
        ),
    ),
    "scatter_reduce": tuple(
        _reductions("scatter_reduce", COLUMNS, [("prod", False), ("mean", True), ("amin", False)])
    ),
    "sort": (
        Sample(lambda ns, x: ns.sort(x, dim=0, stable=True), (TWENTY_APART,)),
        Sample(
            lambda ns, x: ns.sort(x, dim=0, descending=True, stable=True),
            (TWENTY_APART,),
            variant="descending",
            transformed=False,
        ),
    ),
    "sparse.mm": (
        Sample(
            _sparse_product(lambda ns: ns.sparse.mm), (DATA, POSITIONS, MATRIX), transformed=False
        ),
    ),
    "take": (Sample(lambda ns, x, i: ns.take(x, i), (THREE, 3 * WRAPPED)),),
    "take_along_dim": (
        Sample(lambda ns, x, i: ns.take_along_dim(x, i, 0), (THREE[:, :1], np.abs(COLUMNS))),
    ),
    "topk": (
        Sample(lambda ns, x: ns.topk(x, 4, 0), (TWENTY_APART,)),
        Sample(
            lambda ns, x: ns.topk(x, 4, 0, largest=False),
            (TWENTY_APART,),
            variant="least",
            transformed=False,
        ),
    ),
}
