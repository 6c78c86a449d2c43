"""Calls of ``interpolate`` about which PyTorch's kernels agree."""


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


#: Some factors are rounded as floats.
FACTORS = (1 / 3, 2.6, 0.7, 1.1, 2 / 3, 0.3, 3.3, 1.7, 2.0, 0.5, 1.0, 2.05)
