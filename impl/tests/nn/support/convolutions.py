"""What tests of conv and of conv_transpose share."""

import functools
import itertools

import jax
import numpy as np

import impl
from impl.tests._dots import assert_as_torch, random
from spec import oracles


def drawn(seed, count, *, transposed):
    """Calls as (dimensions, shapes of input, weight and bias, keywords); some are refused."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        dims = number % 3 + 1
        groups = int(rng.choice([1, 1, 2, 3]))
        inputs, outputs = (int(rng.integers(1, 4)) for _ in range(2))
        if number % 7 == 0:
            inputs = 35  # more than the terms of a run
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


def arrays(shapes, dtype=np.float64):
    return tuple(random(np.random.default_rng(i), shape, dtype) for i, shape in enumerate(shapes))


def rough(rng, weight, run):
    """Weights of whole numbers, times a power of two that differs from run to run of taps.

    A run's sum is then exact, and the sum of the runs depends on their order.
    """
    outputs, inputs, *kernel = weight
    values = rng.integers(-8, 9, (outputs, inputs, int(np.prod(kernel)))).astype(np.float32)
    scale = 2.0 ** np.resize([20, 0, 1, 19, 0, 2], -(-values.shape[2] // run))
    values = values * np.repeat(scale, run)[: values.shape[2]]
    return values.reshape(weight).astype(np.float32)


def read(x, kernel, result, stride, dilation, padding):
    """What each tap reads of an image: [taps, n, channels, *result]."""
    room = [(p, p + s * 9 + d * 9) for p, s, d in zip(padding, stride, dilation, strict=True)]
    wide = np.pad(x, [(0, 0), (0, 0), *room])
    return np.stack(
        [
            wide[
                (
                    ...,
                    *(
                        slice(t * d, t * d + (o - 1) * s + 1, s)
                        for t, d, o, s in zip(tap, dilation, result, stride, strict=True)
                    ),
                )
            ]
            for tap in itertools.product(*map(range, kernel))
        ]
    )


def oracle(x, w, result, stride, dilation, padding, *, order=slice(None)):
    """A convolution of one group, in tap order, or in another of its runs."""
    kernel = w.shape[2:]
    seen = read(x, kernel, result, stride, dilation, padding)
    flat = w.reshape(*w.shape[:2], -1)
    terms = np.stack(
        [
            np.stack([np.multiply.outer(flat[:, c, t], seen[t, :, c]) for c in range(x.shape[1])])
            for t in range(len(seen))
        ][order]
    )
    return np.moveaxis(oracles.taps(terms), 0, 1)


def oracle_of_image(y, w, image, stride, dilation, padding, *, order=slice(None)):
    """The transpose of a convolution of one group, in tap order, or in another."""
    kernel, result = w.shape[2:], y.shape[2:]
    count = int(np.prod(image))
    places = np.arange(1, count + 1).reshape(1, 1, *image)
    seen = read(places, kernel, result, stride, dilation, padding)[:, 0, 0].reshape(
        -1, y[0, 0].size
    )
    flat, columns = w.reshape(*w.shape[:2], -1), y.reshape(*y.shape[:2], -1)
    terms = np.zeros((len(seen), w.shape[0], w.shape[1], y.shape[0], count + 1), np.float32)
    for t, o in itertools.product(range(len(seen)), range(w.shape[0])):
        terms[t, o][..., seen[t]] = np.multiply.outer(flat[o, :, t], columns[:, o])
    total = oracles.taps(terms[order][..., 1:], image=True)
    return np.moveaxis(total, 0, 1).reshape(y.shape[0], -1, *image)


def assert_drawn_as_torch(torch, seed, number, count, *, transposed):
    """One drawn call, with all its gradients."""
    dims, shapes, options = list(drawn(seed, count, transposed=transposed))[number]
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    dtype = np.complex128 if number % 6 == 4 else np.float64
    with jax.enable_x64(True):
        assert_as_torch(
            torch,
            jax.jit(functools.partial(getattr(impl.nn.functional, name), **options)),
            functools.partial(getattr(torch.nn.functional, name), **options),
            arrays(shapes, dtype),
            rtol=1e-11,
            atol=1e-11,
        )
