"""References in NumPy: values in double precision, and the bits of cumulative ops by the oracles.

A 0-d array stands for one of a single element, as in PyTorch.
"""

import math

import numpy as np

#: The reduction of a list of terms, by the value of ``reduce``; None is a write.
REDUCTIONS = {
    None: lambda terms: terms[-1],
    "add": sum,
    "sum": sum,
    "multiply": math.prod,
    "prod": math.prod,
    "mean": lambda terms: sum(terms) / len(terms),
    "amax": max,
    "amin": min,
}


def scattered(input, dim, index, src, reduce=None, *, include_self=True):
    """Scatters ``src``, element by element, by reducing lists of terms in double precision.

    An index of one dimension less counts slices.
    """
    out = np.atleast_1d(input).astype(np.result_type(input, np.float64))
    src, index = np.atleast_1d(src), np.atleast_1d(index)
    if index.ndim < src.ndim:
        shape = [1] * src.ndim
        shape[dim] = -1
        index = np.broadcast_to(index.reshape(shape), src.shape)
    terms = {}
    for position in np.ndindex(index.shape):
        destination = list(position)
        destination[dim] = index[position]
        terms.setdefault(tuple(destination), []).append(src[position].astype(out.dtype))
    for destination, contributions in terms.items():
        initial = [out[destination]] if include_self else []
        out[destination] = REDUCTIONS[reduce](initial + contributions)
    return out.reshape(np.shape(input))


def written(array, index, values, *, accumulate):
    """Writes or adds ``values`` to elements of a flat array, one after the other."""
    out = array.copy()
    for position, value in zip(index.reshape(-1), values.reshape(-1), strict=True):
        out[position] = out[position] + value if accumulate else value
    return out


def along(function, x, dim):
    """Applies a function of the first axis along another one."""
    return np.moveaxis(function(np.moveaxis(x, dim, 0)), 0, dim)


def cumulative_extreme(x, extreme):
    """Returns cumulative extremes along the first axis, and their last positions; NaN wins."""
    wide = x.astype(np.float64)
    reached = np.isnan(wide) | (wide == extreme.accumulate(wide, axis=0))
    positions = np.arange(len(x), dtype=np.int32).reshape(-1, *[1] * (x.ndim - 1))
    last = np.maximum.accumulate(np.where(reached, positions, 0), axis=0)
    return np.take_along_axis(x, last, axis=0), last
