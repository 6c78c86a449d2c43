"""The forms of the ops of ``impl``."""

import jax.numpy as jnp
import numpy as np

from impl.tests.every_op.forms import Forms, form
from impl.tests.support.numbers import near_one

#: Shapes, a dimension of each, and a number of updates along it.
SHAPES = [
    ((2, 3, 4), 1, 5),
    ((), -1, 1),
    ((5,), -1, 8),
    ((3, 4), 0, 7),
    ((3, 4), -1, 6),
    ((2, 1, 3, 2, 2), -3, 4),
]
FLOATS = [np.float16, jnp.bfloat16, np.complex64]
INTEGERS = [np.int8, np.uint8, np.int32]
DTYPES = [*FLOATS, *INTEGERS, bool]
REDUCTIONS = [
    {"reduce": reduce, "include_self": include_self}
    for reduce in ("mean", "prod", "amax", "amin", "sum")
    for include_self in (True, False)
]
NO_INDEX = np.zeros(0, np.int64)


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def small(shape, dtype, seed=0):
    """Returns small whole numbers, of which a sum is exact in each dtype."""
    numbers = np.random.default_rng(seed).integers(0, 4, shape)
    return (numbers * (1 + 1j) if dtype is np.complex64 else numbers).astype(dtype)


def drawn():
    """Yields an input, a dimension, an index of its slices, one of its elements, and a source."""
    for shape, dim, count in SHAPES:
        rng = np.random.default_rng((count, *shape))
        longer = list(shape)
        if shape:
            longer[dim] = count
        size = shape[dim] if shape else 1
        of_slices, of_elements = rng.integers(0, size, count), rng.integers(0, size, longer)
        yield normal(*shape), dim, of_slices, np.asarray(of_elements), normal(*longer, seed=1)


def by_slices(*keywords, dtypes=()):
    """Returns writes of slices: all shapes, each option, dtypes, numbers, and empty arrays."""
    first = keywords[0]
    calls = [form(x, dim, index, source, **first) for x, dim, index, _, source in drawn()]
    x, source, index = normal(3, 2), normal(4, 2), np.array([2, 0, 2, 1])
    calls += [form(x, 0, index, source, **options) for options in keywords[1:]]
    calls += [
        form(small((3, 2), dtype), 0, index, small((4, 2), dtype, 1), **options)
        for dtype in dtypes
        for options in (keywords[::3] if len(keywords) > 4 else keywords)
        # PyTorch multiplies complex numbers in any order.
        if dtype is not np.complex64 or options.get("reduce", "sum") in ("sum", "mean", "add")
    ]
    one, none = np.zeros(1, np.int64), np.zeros((3, 0), np.float32)
    for options in keywords[:2]:
        calls += [
            form(np.float32(1), 0, one[0], np.float32(2), **options),
            form(np.ones(1, np.float32), 0, one[0], np.float32(2), **options),
            form(x, 1, NO_INDEX, none, **options),
            form(none, 0, one, none[:1], **options),
        ]
    return calls


def by_elements(*keywords, dtypes=()):
    """Returns the same of writes of elements, whose index may be smaller than the source."""
    calls = [form(x, dim, i, source, **keywords[0]) for x, dim, _, i, source in drawn()]
    x, source, index = normal(3, 2), normal(4, 2), np.array([[2, 2], [0, 1], [2, 2], [1, 0]])
    calls += [form(x, 0, index, source, **options) for options in keywords]
    calls.append(form(x, 0, index[:, :1], source[:, :1], **keywords[0]))
    calls += [
        form(small((3, 2), dtype), 0, index, small((4, 2), dtype, 1), **options)
        for dtype in dtypes
        for options in (keywords[::3] if len(keywords) > 4 else keywords)
        # PyTorch multiplies complex numbers in any order.
        if dtype is not np.complex64 or options.get("reduce", "sum") in ("sum", "mean", "add")
    ]
    none, no_rows = np.zeros((3, 0), np.float32), np.zeros((1, 0), int)
    for options in keywords[:2]:
        calls += [
            form(none, 0, no_rows, none[:1], **options),
            form(np.float32(1), 0, np.zeros(1, int), np.ones(1, np.float32), **options),
            form(x[:, 0], 0, np.array(1), np.float32(2), **options),
        ]
    return calls


def from_longer(*keywords):
    """Returns writes whose source is longer than the index; PyTorch has no gradient of them."""
    calls = [
        form(x, dim, i[..., :1], source, **keywords[0])
        for x, dim, _, i, source in drawn()
        if i.ndim
    ]
    for options in keywords:
        calls += [
            form(normal(3, 2), 0, NO_INDEX, normal(4), **options),
            form(normal(3), 0, np.array(1), np.array([2, 7], np.float32), **options),
        ]
    return Forms(calls, has_gradient=False)


def reads(position):
    """Returns reads of all shapes and dtypes; ``position`` chooses the index of ``drawn``."""
    calls = [form(each[0], each[1], each[position]) for each in drawn()]
    index = np.array([2, 0, 2, 1])
    index = index if position == 2 else np.stack([index, index[::-1]], 1)
    calls += [form(small((3, 2), dtype), 0, index) for dtype in DTYPES]
    empty = NO_INDEX if position == 2 else np.zeros((0, 2), int)
    return [*calls, form(normal(3, 2), 0, empty)]


def _flat_index():
    return [np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]])]


def _take():
    calls = [form(normal(*shape), index) for shape in [(2, 3), (), (5,)] for index in _flat_index()]
    calls += [form(small((3, 2), dtype), np.array([2, 0, -1])) for dtype in DTYPES]
    return [*calls, form(normal(0, 3), NO_INDEX.reshape(2, 0))]


def _put(accumulate):
    return [
        form(normal(*shape), index, normal(index.size).reshape(index.shape), accumulate)
        for shape in [(2, 3), (), (5,)]
        for index in _flat_index()
    ]


def _take_along_dim():
    rng, x, calls = np.random.default_rng(0), normal(2, 3, 4), []
    for dim, length in [(0, 5), (1, 1), (-1, 7)]:
        shape = [length if axis == dim % 3 else n for axis, n in enumerate(x.shape)]
        # An index that is broadcast along some dimensions.
        for stays in ([0, 1, 2], [dim % 3]):
            lengths = [n if axis in stays else 1 for axis, n in enumerate(shape)]
            calls.append(form(x, rng.integers(0, x.shape[dim], lengths), dim))
    repeated = rng.integers(0, 3, (2, 7, 4))
    calls += [form(x[:1], repeated, -2), form(x[:1, :, :1], repeated, 1)]
    calls += [form(x, rng.integers(0, 24, (3, 2))), form(x, np.zeros((0, 2), int))]
    calls += [form(np.float32(3), np.array(0)), form(x[:0], np.zeros((1, 3, 1), int), 1)]
    index = np.array([[2], [0], [1]])
    return calls + [form(small((3, 2), dtype), index, 0) for dtype in DTYPES]


def _repeat_interleave():
    x, each = normal(2, 4, 3), np.array([2, 0, 3, 1])
    calls = [form(x, each, 1), form(x, each, -2, output_size=6), form(x, np.arange(24) % 3)]
    calls += [
        form(x, repeats, dim) for dim in (None, -1) for repeats in (0, 2, np.array(2), each[:1])
    ]
    calls += [form(small((3, 2), dtype), 2, 0) for dtype in DTYPES]
    return [*calls, form(np.float32(3), 2), form(x[:0], each[:1], 0), form(each), form(NO_INDEX)]


def _bincount():
    numbers = np.array([3, 1, 3, 0])
    calls = [
        form(numbers.astype(dtype), *weights)
        for dtype in (np.int64, np.uint8, np.int16)
        for weights in ([], *([np.array([1, 0, 1, 1], d)] for d in (np.float32, np.int32, bool)))
    ]
    calls += [form(numbers, None, length) for length in (2, 7)]
    return [*calls, form(NO_INDEX)]


CUMULATIVE = [((2, 3, 4), 1), ((3, 5), 0), ((), 0), ((4,), -1), ((2, 1, 3, 2), -2), ((0, 3), 0)]
CUMULATIVE += [((3, 0), 0), ((2, 2, 3, 1, 2), 2)]


def _cumulative(dtypes, *, has_zeros=False):
    calls = []
    for shape, dim in CUMULATIVE:
        x = np.array(near_one(shape) * 2)
        if has_zeros and x.size > 3:
            x.reshape(-1)[[1, -1]] = 0
        calls.append(form(x, dim))
    calls += [form(np.array(near_one((3, 5), np.complex64)), 1)] * (np.complex64 in dtypes)
    return calls + [form(small((5, 3), dtype), 1) for dtype in dtypes if dtype is not np.complex64]


def _apart(*shape):
    count = int(np.prod(shape))
    return np.random.default_rng(count).permutation(count).reshape(shape).astype(np.float32)


SELECTED = [((2, 3, 4), 1), ((), -1), ((7,), 0), ((4, 5), -1), ((2, 2, 3, 2, 2), -3)]


def _selected(*arguments, numbers=True, keepdim=True, **keywords):
    """Returns selections along a dimension; ``arguments`` come before it."""
    calls = [form(_apart(*s), *arguments, dim=d, **keywords) for s, d in SELECTED if s or numbers]
    if keepdim:
        calls += [form(*call[0], **call[1], keepdim=True) for call in calls[:2]]
    calls += [
        form(_apart(6, 2).astype(dtype), *arguments, dim=0, **keywords)
        for dtype in (np.float16, jnp.bfloat16, np.uint8, np.int32)
    ]
    return [*calls, form(normal(0, 3), *arguments, dim=1, **keywords)]


def _medians():
    return [*_selected(), form(_apart(3, 4)), form(normal(0, 3)), form(_apart(7).astype(np.int32))]


def _products(*shapes):
    calls = [form(normal(*left), normal(*right)) for left, right in shapes]
    (left, right), *_ = shapes
    dtypes = (np.float16, jnp.bfloat16, np.complex64, np.int32)
    return calls + [form(small(left, dtype), small(right, dtype, 1)) for dtype in dtypes]


FORMS = {
    "argsort": Forms(_selected(keepdim=False, stable=True), has_gradient=False),
    "bincount": Forms(_bincount(), has_gradient=False),
    "bmm": Forms(_products(((2, 3, 5), (2, 5, 4)), ((0, 3, 5), (0, 5, 4)))),
    "cummax": Forms(_cumulative([np.float16, *INTEGERS, bool])),
    "cummin": Forms(_cumulative([jnp.bfloat16, *INTEGERS, bool])),
    "cumprod": Forms(_cumulative(DTYPES, has_zeros=True)),
    "cumsum": Forms(_cumulative(DTYPES)),
    "gather": Forms(reads(3)),
    "histc": Forms(
        [form(normal(60), *rest) for rest in ((9, -0.7, 0.9), (5,), (4, 0, 2), (1, 0, 1))],
        has_gradient=False,
    ),
    "index_add": Forms(by_slices({}, {"alpha": 2}, dtypes=DTYPES)),
    "index_copy": Forms(by_slices({}, dtypes=DTYPES), has_gradient=False),
    "index_reduce": Forms(by_slices(*REDUCTIONS[:8], dtypes=[np.float16, *INTEGERS])),
    "index_select": Forms(reads(2)),
    "kthvalue": Forms(_selected(2, numbers=False)),
    "logcumsumexp": Forms(_cumulative([np.float16, jnp.bfloat16, np.complex64])),
    "median": Forms(_medians()),
    "mm": Forms(_products(((3, 5), (5, 4)), ((1, 1), (1, 1)), ((2, 0), (0, 4)), ((0, 3), (3, 4)))),
    "mode": Forms(_selected()),
    "mv": Forms(_products(((3, 5), (5,)), ((3, 0), (0,)))),
    "nanmedian": Forms(_medians()),
    "put": Forms(
        _put(False) + _put(True), torch=lambda _, x, *rest: x.put(*rest), has_gradient=False
    ),
    "repeat_interleave": Forms(_repeat_interleave()),
    "scatter": Forms(
        by_elements({}, {"reduce": "add"}, {"reduce": "multiply"}, dtypes=DTYPES),
        has_gradient=False,
    ),
    "scatter-longer": from_longer({}),
    "scatter_add": Forms(by_elements({}, dtypes=DTYPES)),
    "scatter_add-longer": from_longer({}),
    "scatter_reduce": Forms(by_elements(*REDUCTIONS, dtypes=[np.float16, *INTEGERS])),
    "scatter_reduce-longer": from_longer(*REDUCTIONS[:3]),
    "sort": Forms(
        _selected(keepdim=False, stable=True)
        + _selected(keepdim=False, stable=True, descending=True)
    ),
    "take": Forms(_take()),
    "take_along_dim": Forms(_take_along_dim()),
    "topk": Forms(
        _selected(2, numbers=False, keepdim=False)
        + _selected(2, numbers=False, keepdim=False, largest=False, sorted=False)
    ),
}
