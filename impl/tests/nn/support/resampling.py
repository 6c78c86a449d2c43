"""References of ``interpolate``: a matrix of float64 for each dimension, and drawn calls."""

import math

import numpy as np


def tent(distance):
    return max(1 - abs(distance), 0.0)


def cubic(distance, a):
    distance = abs(distance)
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * (distance**3 - 5 * distance**2 + 8 * distance - 4) if distance < 2 else 0.0


def matrix(n, m, mode, factor=None, align_corners=False, antialias=False):
    """Returns the weight of each of ``n`` elements in each of ``m``: shape [m, n]."""
    out = np.zeros((m, n))
    scale = n / m if factor is None else 1 / factor
    if align_corners:
        scale = (n - 1) / (m - 1) if m > 1 else 0.0
    for row, o in zip(out, range(m), strict=True):
        coordinate = o * scale if align_corners else (o + 0.5) * scale - 0.5
        if mode == "area":
            window = [i for i in range(n) if (i + 1) * m > o * n and i * m < (o + 1) * n]
            row[window] = 1 / len(window)
        elif mode == "nearest":
            # Rounded as in PyTorch: without it, another element would be the nearest.
            scale32 = np.float32(1 if n == m else scale)
            row[min(int(np.float32(o) * scale32), n - 1)] = 1
        elif mode == "nearest-exact":
            row[min(int(np.float32((o + 0.5) * np.float32(scale))), n - 1)] = 1
        elif antialias:
            widened = max(scale, 1)
            coordinate = (o + 0.5) * scale - 0.5
            kernel = tent if "linear" in mode else lambda distance: cubic(distance, -0.5)
            row[:] = [kernel((i - coordinate) / widened) for i in range(n)]
            out[o] /= row.sum()
        elif "linear" in mode:
            row[:] = [tent(i - min(max(coordinate, 0), n - 1)) for i in range(n)]
        else:
            first = math.floor(coordinate)
            for i in range(first - 1, first + 3):
                row[min(max(i, 0), n - 1)] += cubic(i - coordinate, -0.75)
    return np.eye(n) if n == m and ("linear" in mode or antialias) else out


def sizes_and_factors(sizes, options):
    """Returns the sizes of the result, and the factors that positions use, or Nones."""
    dims = len(sizes)
    if "size" in options:
        size = options["size"]
        return (size if isinstance(size, tuple) else (size,) * dims), (None,) * dims
    factors = options["scale_factor"]
    factors = factors if isinstance(factors, tuple) else (factors,) * dims
    recomputed = options.get("recompute_scale_factor") or options["mode"] == "area"
    size = tuple(int(n * f) for n, f in zip(sizes, factors, strict=True))
    return size, ((None,) * dims if recomputed else factors)


def matrices(sizes, options):
    """Returns the matrix of each dimension."""
    keywords = {k: options[k] for k in ("align_corners", "antialias") if k in options}
    results, factors = sizes_and_factors(sizes, options)
    return [
        matrix(n, m, options["mode"], factor, **keywords)
        for n, m, factor in zip(sizes, results, factors, strict=True)
    ]


def applied(x, of_dims):
    """Applies a matrix to each spatial dimension of ``x``."""
    out = x.astype(np.float64)
    for axis, of_dim in enumerate(of_dims, 2):
        out = np.moveaxis(np.tensordot(of_dim, out, (1, axis)), 0, axis)
    return out


def torch_is_ambiguous(sizes, options):
    """Returns whether PyTorch's kernels disagree about the result, or about its gradient."""
    results, factors = sizes_and_factors(sizes, options)
    if options.get("antialias"):
        # PyTorch does not scale a dimension that keeps its size, but it scales the gradient. And
        # if the last size is 1 and others are not, it reads elements of other rows.
        same = any(f and f != 1 and n == m for n, m, f in zip(sizes, results, factors, strict=True))
        return same or results[-1] == 1
    # If a factor is not the ratio of the sizes, and a size stays or doubles, PyTorch has kernels
    # that use the ratio and kernels that use the factor.
    return options["mode"].startswith("nearest") and any(
        f and f != m / n and m in (n, 2 * n)
        for n, m, f in zip(sizes, results, factors, strict=True)
    )


#: Mode, sizes of the input, other options.
KINDS = [
    ("nearest", (5,), {}),
    ("nearest", (4, 7), {}),
    ("nearest-exact", (4, 7), {}),
    ("nearest-exact", (3, 4, 2), {}),
    ("linear", (9,), {}),
    ("linear", (9,), {"align_corners": True}),
    ("bilinear", (6, 5), {}),
    ("bilinear", (6, 5), {"align_corners": True}),
    ("bilinear", (9, 8), {"antialias": True}),
    ("bicubic", (6, 5), {}),
    ("bicubic", (6, 5), {"align_corners": True}),
    ("bicubic", (9, 8), {"antialias": True}),
    ("bicubic", (9, 8), {"antialias": True, "align_corners": True}),
    ("trilinear", (3, 4, 2), {}),
    ("area", (7,), {}),
    ("area", (6, 5), {}),
    ("area", (3, 4, 2), {}),
]
#: Some factors are rounded as floats.
FACTORS = (1 / 3, 2.6, 0.7, 1.1, 2 / 3, 0.3, 3.3, 1.7, 2.0, 0.5, 1.0, 2.05)


def drawn_calls(kind, count):
    """Returns shapes and options of a kind."""
    mode, sizes, keywords = KINDS[kind]
    rng = np.random.default_rng(kind)
    calls = []
    while len(calls) < count:
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *sizes)
        options = {"mode": mode, **keywords}
        choice = len(calls) % 4
        if choice == 0:
            options["size"] = tuple(int(m) for m in rng.integers(1, 2 * max(sizes), len(sizes)))
        elif choice == 1:
            options["size"] = int(rng.integers(1, 9))
        else:
            factors = tuple(float(f) for f in rng.choice(FACTORS, len(sizes)))
            options["scale_factor"] = factors if choice == 2 else factors[0]
            options["recompute_scale_factor"] = [True, False, None][rng.integers(3)]
        if min(sizes_and_factors(sizes, options)[0]) > 0:
            calls.append((shape, options))
    return calls
