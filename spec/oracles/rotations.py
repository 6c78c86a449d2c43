"""The oracle of the order ``rotations``: Jacobi rotations of pairs of columns."""

from __future__ import annotations

import numpy as np

from spec.oracles._numerics import Array


def rotations(matrix: Array, *, symmetric: bool) -> tuple[Array, Array]:
    """Rotates pairs of columns, and the rows of a symmetric matrix, until a sweep rotates nothing.

    Args:
        matrix: Shape [m, n], float64, with elements of magnitudes up to 1.
        symmetric: Whether the matrix is symmetric.

    Returns:
        The matrix, and the product of the rotations, [n, n].
    """
    n = matrix.shape[1]
    odd = n % 2
    a = np.pad(matrix, ((0, odd if symmetric else 0), (0, odd)))
    v = np.eye(n + odd)
    h = len(v) // 2
    ring = [*range(1, h), *range(2 * h - 1, h - 1, -1)]
    order = np.arange(2 * h)
    for _ in range(30):
        has_rotated = False
        for _ in range(2 * h - 1):
            angles = [
                (p, q, _rotation(a, p, q, symmetric=symmetric))
                for p, q in zip(order[:h], order[h:], strict=True)
            ]
            rotated = [(p, q, rotation) for p, q, rotation in angles if rotation]
            for p, q, (c, s) in rotated:
                for x in (a.T, v.T):
                    x[p], x[q] = c * x[p] - s * x[q], s * x[p] + c * x[q]
            for p, q, (c, s) in rotated if symmetric else ():
                a[p], a[q] = c * a[p] - s * a[q], s * a[p] + c * a[q]
            for p, q, _ in rotated if symmetric else ():
                a[p, q] = a[q, p] = 0
            has_rotated = has_rotated or bool(rotated)
            order[ring] = order[[ring[-1], *ring[:-1]]]
        if not has_rotated:
            break
    return a[: len(matrix), :n], v[:n, :n]


def _rotation(a: Array, p: int, q: int, *, symmetric: bool) -> tuple[float, float] | None:
    """Returns the cosine and the sine of a rotation; None if the two columns are not rotated."""
    if symmetric:
        x, y, z = a[p, p], a[q, q], a[p, q]
        stays = abs(z) <= 2.0**-56
    else:
        x, y, z = (sum_of_halves(a[:, i] * a[:, j]) for i, j in ((p, p), (q, q), (p, q)))
        stays = abs(z) <= np.sqrt(x) * np.sqrt(y) * 2.0**-48 or min(x, y) <= 2.0**-104
    if stays:
        return None
    d = (y - x) / 2
    root = np.sqrt(d * d + z * z)
    t = z / (d - root if d < 0 else d + root)
    c = 1 / np.sqrt(1 + t * t)
    return c, t * c


def sum_of_halves(terms: Array) -> float:
    """Adds the products of two columns; an odd last term waits for the next round."""
    while len(terms) > 1:
        half = len(terms) // 2
        terms = np.append(terms[:half] + terms[half : 2 * half], terms[2 * half :])
    return float(terms[0])
