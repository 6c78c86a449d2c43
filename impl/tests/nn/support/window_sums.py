"""References of pooling: the indices that windows read, and means over windows in float64."""

import functools

import numpy as np

from impl.tests.nn.support.arrays import normal
from impl.tests.nn.support.programs import results_and_gradients

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def fixed(size, kernel, stride, padding=0, ceil_mode=False, dilation=1):
    """Returns the indices of each window of a pool; some may be in the padding."""
    last = size + 2 * padding - dilation * (kernel - 1) - 1
    starts = [
        start
        for start in range(0, last + stride, stride)
        if start <= last or (ceil_mode and start < size + padding)
    ]
    return [[start - padding + dilation * i for i in range(kernel)] for start in starts]


def adaptive(size, count):
    """Returns the indices of each of ``count`` windows that divide a dimension."""
    return [
        [
            i
            for i in range(size)
            if (i + 1) * count > window * size and i * count < (window + 1) * size
        ]
        for window in range(count)
    ]


def drawn_adaptive(dims, calls):
    """Yields the shapes and the output sizes of calls of an adaptive pool."""
    rng = np.random.default_rng(dims)
    for number in range(calls):
        sizes = tuple(map(int, rng.integers(1, 9, dims)))
        lengths = [int(n) for n in rng.integers(1, 11, dims)]
        if dims > 1 and number % 3 == 0:
            lengths[number % dims] = None
        output_size = max(filter(None, lengths)) if number % 5 == 1 else tuple(lengths)
        yield (2, 3, *sizes)[number % 2 :], output_size


def adaptive_windows(sizes, output_size):
    """Returns the indices of each window, for each dimension of an adaptive pool."""
    lengths = of_each_dimension(output_size, len(sizes))
    return [adaptive(n, n if m is None else m) for n, m in zip(sizes, lengths, strict=True)]


def membership(windows, sizes):
    """Returns which elements each window contains: shape [windows, elements]."""
    parts = [
        np.array([[float(i in window) for i in range(size)] for window in of_dim])
        for of_dim, size in zip(windows, sizes, strict=True)
    ]
    return functools.reduce(np.kron, (p.reshape(-1, n) for p, n in zip(parts, sizes, strict=True)))


def count_within(windows, limits):
    """Returns how many indices of each window are in ``[low, high)`` of each dimension."""
    counts = [
        [sum(low <= i < high for i in window) for window in of_dim]
        for of_dim, (low, high) in zip(windows, limits, strict=True)
    ]
    return functools.reduce(np.multiply.outer, map(np.array, counts))


def mean(x, windows, divisor):
    """Returns the means over windows of the last dimensions, and their gradient function."""
    dims = len(windows)
    member = membership(windows, x.shape[-dims:])
    rows = x.astype(np.float64).reshape(*x.shape[:-dims], -1)
    lengths = [len(of_dim) for of_dim in windows]
    out = (rows @ member.T).reshape(*x.shape[:-dims], *lengths) / divisor

    def pullback(cotangent):
        return ((cotangent / divisor).reshape(*x.shape[:-dims], -1) @ member).reshape(x.shape)

    return out, pullback


def of_each_dimension(value, dims):
    """Returns ``value``, or a tuple that repeats it for each dimension."""
    return value if isinstance(value, tuple) else (value,) * dims


def assert_as_references(op, calls, references):
    """Checks that calls of ``op`` have the results and gradients of their references.

    Args:
        op: A function of an array and other arguments.
        calls: Pairs of an array of float32 and a tuple of the other arguments.
        references: For each call, the result and a gradient function.
    """
    cotangents = [normal(out.shape, 1) for out, _ in references]
    functions = [lambda x, rest=rest: op(x, *rest) for _, rest in calls]
    results = results_and_gradients(functions, [(x,) for x, _ in calls], cotangents)
    for (out, gradient), (want, pullback), cotangent, (x, rest) in zip(
        results, references, cotangents, calls, strict=True
    ):
        message = f"{x.shape}, {rest}"
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, want, err_msg=message, **CLOSE)
        np.testing.assert_allclose(gradient, pullback(cotangent), err_msg=message, **CLOSE)


def assert_torch_has(torch, op, arguments, x, reference, rtol=1e-5):
    """Checks that PyTorch's op has the result and the gradient of the reference."""
    tensor = torch.tensor(x, requires_grad=True)
    out = op(tensor, *arguments)
    message = f"{x.shape}, {arguments}"
    np.testing.assert_allclose(out.detach(), reference[0], err_msg=message, **CLOSE)
    cotangent = normal(out.shape, 1)
    gradient = torch.autograd.grad(out, tensor, torch.tensor(cotangent))[0]
    want = reference[1](cotangent)
    np.testing.assert_allclose(gradient, want, err_msg=message, rtol=rtol, atol=1e-5)
