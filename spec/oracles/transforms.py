"""The oracle of the order ``transform``: mixed-radix Fourier transforms."""

from __future__ import annotations

import decimal

import numpy as np

from spec.oracles._numerics import Array

_PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def transform(real: Array, imaginary: Array, *, inverse: bool = False) -> tuple[Array, Array]:
    """Transforms the last axis.

    Args:
        real: The real parts, float64.
        imaginary: The imaginary parts.
        inverse: Whether the transform is an inverse, which is not scaled here.

    Returns:
        The parts of the frequencies.
    """
    n = real.shape[-1]
    p = max((p for p in range(2, n + 1) if n % p == 0 and _is_prime(p)), default=1)
    if p == 1:
        return real, imaginary
    s = n // p
    lines = [transform(real[..., v::p], imaginary[..., v::p], inverse=inverse) for v in range(p)]
    if s > 1:
        lines = [
            _times_roots(line, [_root(q * v, n, inverse=inverse) for q in range(s)])
            for v, line in enumerate(lines)
        ]
    frequencies = []
    for u in range(p):
        total = lines[0]
        for v in range(1, p):
            root = _root(u * v, p, inverse=inverse) if p > 2 else (1.0, 0.0)
            term = _times_roots(lines[v], [root]) if p > 2 else lines[v]
            sign = -1 if p == 2 and u else 1
            total = total[0] + sign * term[0], total[1] + sign * term[1]
        frequencies.append(total)
    first, second = (np.concatenate(parts, -1) for parts in zip(*frequencies, strict=True))
    return first, second


def _is_prime(p: int) -> bool:
    return all(p % q for q in range(2, p))


def _times_roots(
    line: tuple[Array, Array], roots: list[tuple[float, float]]
) -> tuple[Array, Array]:
    (a, b), (c, d) = line, np.array(roots).T
    return a * c - b * d, a * d + b * c


def _root(turns: int, n: int, *, inverse: bool) -> tuple[float, float]:
    """Returns the parts of a root of unity, each rounded once."""
    with decimal.localcontext(prec=60):
        angle = 2 * _PI * (turns % n) / n
        term, parts = decimal.Decimal(1), [decimal.Decimal(0)] * 2
        for k in range(80):
            parts[k % 2] += -term if k & 2 else term
            term *= angle / (k + 1)
        # The series has no exact zeros.
        cosine, sine = (
            0.0 if abs(part) < decimal.Decimal("1e-40") else float(part) for part in parts
        )
    return cosine, sine if inverse else -sine
