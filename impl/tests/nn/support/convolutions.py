"""Calls of convolutions that tests draw."""

import numpy as np


def drawn_calls(seed, count, *, transposed):
    """Yields dimensions, shapes of input, weight and bias, and options; some are refused."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        dims = number % 3 + 1
        groups = int(rng.choice([1, 1, 2, 3]))
        inputs, outputs = (int(rng.integers(1, 4)) for _ in range(2))
        if number % 7 == 0:
            inputs = 35  # More than the terms of a run.
        kernel, stride, dilation, padding, sizes = (
            tuple(int(v) for v in rng.integers(low, high, dims))
            for low, high in ((1, 4), (1, 4), (1, 3), (0, 4), (1, 9))
        )
        channels = (inputs * groups, outputs) if transposed else (outputs * groups, inputs)
        batch = (int(rng.integers(1, 4)),) if rng.integers(4) else ()
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            options["output_padding"] = tuple(
                int(rng.integers(max(pair))) for pair in zip(stride, dilation, strict=True)
            )
        elif number % 3 != 1:
            options["padding"] = ("same", "valid")[number % 2]
            options["stride"] = 1 if number % 2 == 0 else stride
        shapes = [(*batch, inputs * groups, *sizes), (*channels, *kernel)]
        if rng.integers(3):
            shapes.append((outputs * groups,))
        yield dims, shapes, options
