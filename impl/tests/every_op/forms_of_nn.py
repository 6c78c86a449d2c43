"""The forms of the ops of ``impl.nn.functional``."""

import itertools

import jax.numpy as jnp
import numpy as np

from impl.tests.every_op.forms import Forms, form
from impl.tests.every_op.forms_of_ops import normal, small
from impl.tests.nn.support.convolutions import drawn_calls as drawn_convolutions
from impl.tests.nn.support.resampling import KINDS, drawn_resampling

INF = float("inf")
#: The sizes of an input by its number of dimensions; the second is too small for some windows.
SIZES = {1: [(11,), (4,)], 2: [(7, 6), (4, 9)], 3: [(5, 4, 6), (4, 4, 3)]}
#: The number of calls by the number of dimensions. Another number of them adds little code.
COUNT = {1: 5, 2: 6, 3: 4}


def with_ties(shape):
    """Returns an array in which many elements are equal."""
    return np.random.default_rng(shape).integers(0, 6, shape).astype(np.float32)


def _numbers(rng, most, dims):
    return tuple(int(number) for number in rng.integers(1, most, dims))


def _windows(dims, dilated):
    """Yields shapes and the first arguments of pools of windows."""
    rng = np.random.default_rng(dims)
    for number in range(COUNT[dims]):
        kernel, stride, dilation = (_numbers(rng, most, dims) for most in (5, 5, 4))
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
        arguments = [kernel, stride if number % 4 else None, padding]
        arguments += [dilation] * dilated
        if number % 3 == 0:
            arguments = [kernel[0], stride[0], padding[0], *[dilation[0]] * dilated]
        shape = (2, 3, *SIZES[dims][number % 5 == 4])[number % 2 :]
        yield shape, (*arguments, number % 2 == 0)


def _avg_pool(dims):
    divisors = itertools.cycle([None, 3, -2])
    return Forms(
        [
            form(normal(*shape), *rest, n % 3 > 0, *[next(divisors)] * (dims > 1))
            for n, (shape, rest) in enumerate(_windows(dims, dilated=False))
        ]
    )


def _max_pool(dims):
    calls = [form(with_ties(s), *rest, return_indices=True) for s, rest in _windows(dims, True)]
    return Forms(calls)


def _adaptive(dims, array, **options):
    rng, calls = np.random.default_rng(dims), []
    for number in range(COUNT[dims]):
        sizes, lengths = _numbers(rng, 9, dims), list(_numbers(rng, 11, dims))
        if dims > 1 and number % 3 == 0:
            lengths[number % dims] = None
        size = max(filter(None, lengths)) if number % 5 == 1 else tuple(lengths)
        calls.append(form(array((2, 3, *sizes)[number % 2 :]), size, **options))
    return Forms(calls)


def _lp_pool(dims):
    rng, calls = np.random.default_rng(dims), []
    for number, power in enumerate([1, 2, 3.0, 2.5, 4, 0.5, -1, -2.0, INF, -INF]):
        kernel, stride = _numbers(rng, 5, dims), _numbers(rng, 5, dims)
        if dims == 1 or number % 3 == 0:
            kernel, stride = kernel[0], stride[0]
        shape = (2, 3, *SIZES[dims][number % 2])[number // 2 % 2 :]
        strides = None if number % 4 == 0 else stride
        calls.append(form(np.exp(normal(*shape)), power, kernel, strides, number % 3 > 0))
    return Forms(calls, tolerance=10)


def _fractional_max_pool(dims):
    rng, calls = np.random.default_rng(dims), []
    for number in range(COUNT[dims]):
        sizes = tuple(int(n) for n in rng.integers(4, 9, dims))
        kernel = _numbers(rng, 4, dims)
        lengths = tuple(int(rng.integers(1, n - k + 2)) for n, k in zip(sizes, kernel, strict=True))
        shape = (2, 3, *sizes)[number % 2 :]
        samples = rng.random((2 - number % 2, 3, dims), np.float32)
        samples.flat[0] = [0, 0.5, 1 - 2**-24][number % 3]
        how = {"output_size": lengths}
        if number % 4 == 0:
            kernel, how = min(kernel), {"output_size": min(lengths)}
        elif number % 4 == 1:
            # The integer part of a size times this ratio is the length.
            ratio = tuple(float(m + 0.5) / n for m, n in zip(lengths, sizes, strict=True))
            how = {"output_ratio": ratio}
        calls.append(
            form(with_ties(shape), kernel, **how, return_indices=True, _random_samples=samples)
        )
    if dims == 2:
        # A loop reads windows of this length.
        x, samples = with_ties((2, 3, 60, 4)), rng.random((2, 3, 2), np.float32)
        calls.append(form(x, (50, 2), (9, 2), return_indices=True, _random_samples=samples))
    return Forms(calls, traced=1)


def _unpool(dims, *calls):
    """Returns calls whose indices are unique in each channel."""
    rng, forms = np.random.default_rng(dims), []
    for shape, arguments, size in calls:
        channels, length = shape[:-dims], int(np.prod(shape[-dims:]))
        rows = [rng.permutation(int(np.prod(size)))[:length] for _ in np.ndindex(channels)]
        forms.append(form(normal(*shape), np.reshape(rows, shape).astype(np.int64), *arguments))
    return Forms(forms)


def _interpolate():
    drawn = [drawn_resampling(kind, 1)[0] for kind in range(len(KINDS))]
    return Forms([form(normal(*shape), **options) for shape, options in drawn], wide=len(KINDS))


def _pad():
    calls = [
        form(normal(*shape), widths, value=value)
        for shape, widths, value in [
            ((3, 2), (1, 0, -3, 1), None),
            ((3,), (2, 1), 2.5),
            ((), (), None),
            ((3, 2), (0, -2), 1.0),
            ((2, 3, 4), (1, 2, -1, 3, 0, 1), INF),
            ((0, 3), (1, 1), 7),
            ((1, 2, 1, 2, 3), (0, 1, 2, -1, 1, 1, -1, 0, 1, 0), -0.0),
        ]
    ]
    for mode, dims in itertools.product(("reflect", "replicate", "circular"), (1, 2, 3)):
        rng, sizes = np.random.default_rng((dims, *mode.encode())), {1: (7,), 2: (5, 6)}
        sizes = sizes.get(dims, (4, 3, 5))
        for number in range(3):
            widths = []
            for n in reversed(sizes):
                before, after = (int(p) for p in rng.integers(-(n // 2), n + 1, 2))
                most = {"reflect": n - 1, "replicate": 2 * n}.get(mode, n + min(before, after, 0))
                pair = min(before, most), min(after, most)
                widths += pair if n + sum(pair) > 0 else (0, 1)
            calls.append(form(normal(*(2, 3, *sizes)[number % 2 :]), tuple(widths), mode))
        calls.append(form(normal(0, 2, *sizes), (1, 2) * dims, mode))
    calls.append(form((normal(3, 4) + 1j * normal(3, 4, seed=1)), (2, 3), "reflect"))
    return Forms(calls, wide=12)


WEIGHT = normal(5, 3)
INDEX = np.random.default_rng(0).integers(0, 5, 10)


def _embedding():
    """Returns indices, padding, a bound and the order of the norm, and a division by counts."""
    norms = [(None, 2.0), (1.0, 2.0), (1, 1.0), (0.5, INF), (1.0, 3.0), (2.0, 0.0), (0.0, 2)]
    calls = [
        form(INDEX[:6].reshape(shape), WEIGHT, padding, *norm, scaled)
        for shape, padding, norm, scaled in itertools.product(
            [(2, 3), (6,)], [None, 0, -2], norms, [False, True]
        )
        if (len(shape) + (padding or 0) + norms.index(norm) + scaled) % 3 == 0
    ]
    calls += [form(np.array(3), WEIGHT), form(INDEX[:0].reshape(0, 2), WEIGHT, 1, 1.0)]
    calls += [form(INDEX, small((5, 2), dtype), 0) for dtype in (np.float16, jnp.bfloat16, np.int8)]
    return Forms(
        calls,
        # PyTorch writes scaled rows to the weight.
        torch=lambda torch, i, w, *rest: torch.nn.functional.embedding(i, w * 1, *rest),
    )


def _embedding_bag():
    offsets, ends, calls = np.array([0, 0, 3, 7, 10]), np.array([0, 2, 2, 8]), []
    choices = itertools.product(
        enumerate([(offsets, False), (ends, True), (None, False)]),
        enumerate([("sum", False), ("sum", True), ("mean", False), ("max", False)]),
        enumerate([None, 1, -5]),
        [None, 1.0],
    )
    for (i, (starts, last)), (j, (mode, weighted)), (k, padding), norm in choices:
        if (i + j + k) % 3:
            continue  # Each pair of options occurs in the rest.
        # PyTorch wrongly adds the elements after the last bag to it.
        index = INDEX.reshape(5, 2) if starts is None else INDEX[: 8 if last else 10]
        calls.append(
            form(
                index,
                WEIGHT,
                starts,
                norm,
                mode=mode,
                per_sample_weights=normal(*index.shape) if weighted else None,
                include_last_offset=last,
                padding_idx=padding,
            )
        )
    return Forms(
        calls,
        torch=lambda torch, i, w, *a, **k: torch.nn.functional.embedding_bag(i, w * 1, *a, **k),
    )


def _convolution(dims, *, transposed):
    calls = []
    for number, (of_call, shapes, options) in enumerate(
        drawn_convolutions(1 + transposed, 9, transposed=transposed)
    ):
        # PyTorch refuses an empty result of a transposed convolution, but not in each dtype.
        if of_call == dims and not (transposed and 1 in shapes[0]):
            rng = np.random.default_rng(number)
            dtype = np.complex64 if number % 6 == 4 else np.float32
            arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
            calls.append(form(*arrays, **options))
    return Forms(calls, tolerance=3)


def _losses():
    """Returns the forms of nll_loss and of cross_entropy."""
    rng, nll, entropy = np.random.default_rng(1), [], []
    shapes = [(4, 3), (3,), (2, 3, 5), (2, 3, 2, 2), (2, 3, 1, 2, 1), (0, 3), (2, 3, 0)]
    options = itertools.product(
        ["none", "mean", "sum"], [False, True], [0.0, 0.2], [-100, 1, "probabilities"]
    )
    for number, (reduction, weighted, smoothing, ignored) in enumerate(options):
        by_class = ignored != "probabilities"
        for shape in shapes[number % 7 :: 7]:
            of_targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
            weight = np.array([0.5, 2, 1.5], np.float32) if weighted else None
            target = np.asarray(rng.integers(0, 3, of_targets))
            keywords = {"reduction": reduction, "weight": weight}
            keywords["ignore_index"] = ignored if by_class else -100
            x = normal(*shape)
            if by_class:
                nll.append(form(x, target, **keywords))
            else:
                target = rng.random(shape).astype(np.float32)
            entropy.append(form(10 * x, target, **keywords, label_smoothing=smoothing))
    return Forms(nll, wide=9, traced=1), Forms(entropy, wide=9, traced=1)


_NLL, _ENTROPY = _losses()


def _by_probabilities():
    """Returns a form of cross_entropy that is differentiated by all of its arrays."""
    rng, weight = np.random.default_rng(0), np.array([0.5, 2, 1.5], np.float32)
    target = rng.random((4, 3)).astype(np.float32)
    return Forms([form(normal(4, 3), target, weight, label_smoothing=0.1)])


def _ctc_loss():
    """Returns targets that repeat labels, contain the blank, are empty or do not fit."""
    targets = np.array(
        [[1, 2, 3], [2, 2, 1], [3, 3, 3], [2, 0, 1], [1, 9, 5], [2, 1, 3], [1, 1, 2]]
    )
    lengths = np.array([6, 6, 4, 6, 5, 0, 2]), np.array([3, 2, 3, 3, 1, 0, 2])
    flat = np.concatenate([row[:n] for row, n in zip(targets, lengths[1], strict=True)])
    options = itertools.product(["none", "mean", "sum"], [False, True], [targets, flat])
    calls = []
    for number, (reduction, zero_infinity, chosen) in enumerate(options):
        if number in (1, 3, 4, 6, 9, 11):
            continue  # Each pair of options occurs in the rest.
        x = normal(6, len(targets), 4, seed=number) * np.float32([1, 5][number % 2])
        # Some do not come from log_softmax.
        x = x - np.log(np.exp(x).sum(-1, keepdims=True)) if number % 4 else x
        rest = {"reduction": reduction, "zero_infinity": zero_infinity}
        calls.append(form(x, chosen, *lengths, **rest))
    return Forms(calls, wide=4, tolerance=3)


def _affine_grid():
    sizes = [(2, 3, 4, 5), (1, 1, 1, 3), (2, 1, 2, 4, 3)]
    return Forms(
        [
            form(normal(size[0], len(size) - 2, len(size) - 1), size, align)
            for size in sizes
            for align in (True, False)
        ]
    )


def _attention():
    seen = np.array([[False] * 5, [True] * 3 + [False, True], [True] * 5])
    subtracted = np.where(seen, 0.5, -INF).astype(np.float32)
    calls = [
        ((3, 4), (5, 4), (5, 6), None, {"scale": -0.3}),
        ((2, 1, 2, 3, 4), (1, 3, 2, 5, 4), (5, 4), normal(3, 5, seed=3), {}),
        ((3, 4), (2, 5, 4), (2, 5, 4), seen, {}),
        ((3, 4), (5, 4), (7, 5, 2), subtracted, {"scale": 2}),
        ((2, 3, 4), (2, 5, 4), (2, 5, 6), None, {"is_causal": True}),
        ((1, 12, 3, 4), (2, 2, 5, 4), (1, 6, 5, 2), normal(2, 12, 1, 5), {"enable_gqa": True}),
        ((4, 5, 4), (4, 3, 4), (1, 3, 4), None, {"enable_gqa": True, "is_causal": True}),
        ((2, 0, 3, 4), (2, 0, 5, 4), (2, 0, 5, 4), None, {"enable_gqa": True}),
        ((2, 3, 4), (2, 0, 4), (2, 0, 6), None, {}),
        ((0, 3, 4), (0, 5, 4), (0, 5, 6), np.array(False), {}),
    ]
    forms = [
        form(*(normal(*shape, seed=n) for n, shape in enumerate(shapes)), mask, **options)
        for *shapes, mask, options in calls
    ]
    return Forms(forms, wide=6, tolerance=10)


def _grid_sample():
    calls = []
    kinds = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
    for padding, (dims, mode) in itertools.product(("zeros", "border", "reflection"), kinds):
        rng = np.random.default_rng((dims, *mode.encode(), *padding.encode()))
        batch, channels, *_ = _numbers(rng, 4, 2)
        sizes, samples = _numbers(rng, 7, dims), _numbers(rng, 7, dims)
        grid = normal(batch, *samples, dims) * np.float32(1.3)
        calls.append(form(normal(batch, channels, *sizes), grid, mode, padding, len(calls) % 2 > 0))
    return Forms(calls, wide=len(kinds), tolerance=20)


F = "nn.functional."
EACH = (1, 2, 3)
FORMS = {
    **{F + f"adaptive_avg_pool{d}d": _adaptive(d, lambda s: normal(*s)) for d in EACH},
    **{F + f"adaptive_max_pool{d}d": _adaptive(d, with_ties, return_indices=True) for d in EACH},
    **{F + f"avg_pool{dims}d": _avg_pool(dims) for dims in EACH},
    **{F + f"conv{dims}d": _convolution(dims, transposed=False) for dims in EACH},
    **{F + f"conv_transpose{dims}d": _convolution(dims, transposed=True) for dims in EACH},
    **{F + f"fractional_max_pool{dims}d": _fractional_max_pool(dims) for dims in (2, 3)},
    **{F + f"lp_pool{dims}d": _lp_pool(dims) for dims in (1, 2)},
    **{F + f"max_pool{dims}d": _max_pool(dims) for dims in EACH},
    F + "affine_grid": _affine_grid(),
    F + "cross_entropy": _ENTROPY,
    F + "cross_entropy-probabilities": _by_probabilities(),
    F + "ctc_loss": _ctc_loss(),
    F + "embedding": _embedding(),
    F + "embedding_bag": _embedding_bag(),
    F + "grid_sample": _grid_sample(),
    F + "interpolate": _interpolate(),
    F + "max_unpool1d": _unpool(
        1,
        ((2, 3, 4), (2,), (8,)),
        ((3, 4), ((3,), 2, 1), (7,)),
        ((3, 4), (3, 2, 1, (8,)), (8,)),
        ((2, 3, 4), (2, 2, 0, (2, 3, 9)), (9,)),
    ),
    F + "max_unpool2d": _unpool(
        2,
        ((2, 2, 3, 2), (2,), (6, 4)),
        ((2, 3, 2), ((2, 3), (2, 1), (0, 1)), (6, 2)),
        ((2, 2, 3, 2), ([2, 3], 2, 0, [5, 6]), (5, 6)),
    ),
    F + "max_unpool3d": _unpool(
        3,
        ((2, 2, 3, 2, 2), (2,), (6, 4, 4)),
        ((2, 3, 2, 2), ((2, 3, 1), (1, 2, 3), 0, (2, 2, 4, 5, 4)), (4, 5, 4)),
    ),
    F + "nll_loss": _NLL,
    F + "pad": _pad(),
    F + "scaled_dot_product_attention": _attention(),
}  # fmt: skip
