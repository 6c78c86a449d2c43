"""References of ``embedding`` and ``embedding_bag`` in float64 with gradients, and inputs."""

import numpy as np

from impl.tests.nn.support.arrays import normal

#: A table of 5 rows, indices of its rows, and the start of each of four bags of them.
WEIGHT = normal((5, 3))
INDEX = np.random.default_rng(0).integers(0, 5, 10)
OFFSETS = np.array([0, 0, 3, 7])
FACTORS = normal((10,))
#: Indices of rows, some of which are out of range.
OUT_OF_RANGE = np.array([3, -1, 0, 5, 3, 12, -5, 2**31 - 1, -(2**31), 1], np.int32)
IN_RANGE = (OUT_OF_RANGE >= 0) & (OUT_OF_RANGE < 5)


def scaled_rows(rows, max_norm, order):
    """Returns rows, scaled to ``max_norm`` if their norm is greater."""
    rows = rows.astype(np.result_type(rows, np.float64))
    if max_norm is None:
        return rows
    norm = np.stack([np.linalg.norm(row, order) for row in rows])[:, None]
    return np.where(norm > max_norm, rows * max_norm / (norm + 1e-7), rows)


def embedding(index, weight, padding=None, max_norm=None, order=2.0, scaled=False):
    """Returns the result, and a function from its cotangent to the gradient of the weight."""

    def pullback(cotangent):
        gradient = np.zeros(weight.shape, np.result_type(weight, np.float64))
        np.add.at(gradient, index, cotangent)
        if scaled:
            count = np.bincount(np.ravel(index), minlength=len(weight))
            gradient /= np.maximum(count, 1)[:, None]
        if padding is not None:
            gradient[padding] = 0
        return gradient

    return scaled_rows(weight, max_norm, order)[index], pullback


def positions_of_bags(index, offsets, include_last, padding, rows):
    """Returns for each bag the positions of its elements in the flattened input."""
    if offsets is None:
        offsets, include_last = np.arange(0, index.size, index.shape[1]), False
    starts = offsets[:-1] if include_last else offsets
    ends = offsets[1:] if include_last else [*offsets[1:], index.size]
    flat = index.reshape(-1)
    padding = None if padding is None else padding % rows
    return [
        [position for position in range(start, end) if flat[position] != padding]
        for start, end in zip(starts, ends, strict=True)
    ]


def embedding_bag(
    index,
    weight,
    offsets=None,
    mode="mean",
    factors=None,
    include_last=False,
    padding=None,
    max_norm=None,
):
    """Returns the result, and a function to the gradients of the weight and of the factors."""
    rows = scaled_rows(weight, max_norm, 2.0)[index.reshape(-1)]
    bags = positions_of_bags(index, offsets, include_last, padding, len(weight))
    # share[bag, row, column]: the factor of rows[row, column] in the result of the bag.
    share = np.zeros((len(bags), *rows.shape))
    for share_of_bag, positions in zip(share, bags, strict=True):
        for column in range(rows.shape[1] if positions else 0):
            if mode == "max":
                best = positions[int(np.argmax(rows[positions, column]))]
                share_of_bag[best, column] = 1
            else:
                share_of_bag[positions, column] = 1 / (len(positions) if mode == "mean" else 1)
    scale = np.ones(len(rows)) if factors is None else factors.reshape(-1).astype(np.float64)

    def pullback(cotangent):
        of_rows = np.einsum("bd,bnd->nd", cotangent, share)
        of_weight = np.zeros(weight.shape)
        np.add.at(of_weight, index.reshape(-1), of_rows * scale[:, None])
        return of_weight, (of_rows * rows).sum(1).reshape(index.shape)

    return np.einsum("bnd,nd,n->bd", share, rows, scale), pullback
