"""The samples of the ops of ``impl.nn`` and ``impl.nn.functional``."""

import numpy as np

from impl.tests.every_op.sample import Sample, apart
from impl.tests.support.numbers import spread

RNG = np.random.default_rng(8)
#: The lengths of a side, for each number of spatial dimensions.
SIDES = {1: (7,), 2: (5, 4), 3: (4, 3, 4)}
#: The number of dimensions for which a family of ops is tested under transformations.
DIMENSIONS = 2
ROWS = RNG.integers(0, 4, (2, 5))


def _pooling(op, *arguments, **options):
    """Returns the samples of an op that takes an array and ints."""
    dims = int(op[-2])
    x = apart(2, 3, *SIDES[dims])
    call = lambda ns, x: getattr(ns.nn.functional, op)(x, *arguments)  # noqa: E731
    options["transformed"] = dims == DIMENSIONS
    return {f"nn.functional.{op}": (Sample(call, (x,), **options),)}


def _convolution(op, dims):
    """Returns the samples of a convolution with a bias."""
    name = f"{op}{dims}d"
    weight = (3, 4) if op == "conv_transpose" else (4, 3)
    return {
        f"nn.functional.{name}": (
            Sample(
                lambda ns, x, w, b: getattr(ns.nn.functional, name)(x, w, b, stride=2, padding=1),
                (
                    spread(RNG, (2, 3, *SIDES[dims])),
                    spread(RNG, (*weight, *[2] * dims)),
                    spread(RNG, 4),
                ),
                same_bits=False,
                transformed=dims == DIMENSIONS,
            ),
        )
    }


def _unpooling(dims):
    """Returns the samples of an unpooling by two; each output is written at most once."""
    shape = (2, 2, *SIDES[dims])
    count = 2**dims * int(np.prod(SIDES[dims]))
    flat = [RNG.choice(count, int(np.prod(SIDES[dims])), replace=False) for _ in range(4)]
    name = f"max_unpool{dims}d"
    return {
        f"nn.functional.{name}": (
            Sample(
                lambda ns, x, i: getattr(ns.nn.functional, name)(x, i, 2),
                (spread(RNG, shape), np.stack(flat).reshape(shape)),
                transformed=dims == DIMENSIONS,
            ),
        )
    }


def _fractional(dims):
    """Returns the samples of a pooling whose windows are drawn by given numbers."""
    name = f"fractional_max_pool{dims}d"
    samples = RNG.random((2, 2, dims)).astype(np.float32)

    def call(ns, x):
        drawn = ns.from_numpy(samples) if ns.__name__ == "torch" else samples
        return getattr(ns.nn.functional, name)(x, 2, 2, _random_samples=drawn)

    return {
        f"nn.functional.{name}": (
            Sample(call, (apart(2, 2, *[4] * dims),), transformed=dims == DIMENSIONS),
        )
    }


def _recurrent(op, gates, **options):
    """Returns the samples of a recurrent net of one layer with biases."""
    hidden, features = 3, 2
    rows = gates * hidden
    shapes = [(4, 3, features), (1, 3, hidden), (rows, features), (rows, hidden), (rows,), (rows,)]
    state = (lambda h: (h, h / 2)) if op == "lstm" else (lambda h: h)
    flags = (True, 1, 0.0, False, False, False)

    def call(ns, x, h, *weights):
        function = getattr(ns if ns.__name__ == "torch" else ns.nn, op)
        return function(x, state(h), list(weights), *flags)

    arrays = tuple(RNG.standard_normal(shape).astype(np.float32) for shape in shapes)
    return {f"nn.{op}": (Sample(call, arrays, same_bits=False, batch=(0, 1, 2), **options),)}


LOGITS = RNG.standard_normal((4, 2, 5)).astype(np.float32)
LOG_PROBABILITIES = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
CLASSES = RNG.integers(0, 5, 8)

SAMPLES = {
    **_pooling("adaptive_avg_pool1d", 3, same_bits=False),
    **_pooling("adaptive_avg_pool2d", (3, 2), same_bits=False),
    **_pooling("adaptive_avg_pool3d", (3, 2, 2), same_bits=False),
    **_pooling("adaptive_max_pool1d", 3),
    **_pooling("adaptive_max_pool2d", (3, 2)),
    **_pooling("adaptive_max_pool3d", (3, 2, 2)),
    **_pooling("avg_pool1d", 3, 2, 1, same_bits=False),
    **_pooling("avg_pool2d", 3, 2, 1, same_bits=False),
    **_pooling("avg_pool3d", 2, 2, 1, same_bits=False),
    **_pooling("lp_pool1d", 2, 3, 2, same_bits=False),
    **_pooling("lp_pool2d", 2, 2, 1, same_bits=False),
    **_pooling("max_pool1d", 3, 2, 1),
    **_pooling("max_pool2d", 3, 2, 1),
    **_pooling("max_pool3d", 2, 2, 1),
    **_convolution("conv", 1),
    **_convolution("conv", 2),
    **_convolution("conv", 3),
    **_convolution("conv_transpose", 1),
    **_convolution("conv_transpose", 2),
    **_convolution("conv_transpose", 3),
    **_unpooling(1),
    **_unpooling(2),
    **_unpooling(3),
    **_fractional(2),
    **_fractional(3),
    **_recurrent("rnn_tanh", 1, transformed=False),
    **_recurrent("rnn_relu", 1, transformed=False),
    **_recurrent("gru", 3),
    **_recurrent("lstm", 4),
    "nn.functional.affine_grid": (
        Sample(
            lambda ns, theta: ns.nn.functional.affine_grid(
                theta, (2, 1, 3, 4), align_corners=False
            ),
            (spread(RNG, (2, 2, 3)),),
            same_bits=False,
        ),
    ),
    "nn.functional.cross_entropy": (
        Sample(
            lambda ns, x, t: ns.nn.functional.cross_entropy(x, t, label_smoothing=0.1),
            (spread(RNG, (8, 5)) / 8, CLASSES),
            same_bits=False,
        ),
    ),
    "nn.functional.ctc_loss": (
        Sample(
            lambda ns, x, t, n, m: ns.nn.functional.ctc_loss(x, t, n, m),
            (LOG_PROBABILITIES, np.array([[1, 2], [3, 3]]), np.array([4, 4]), np.array([2, 2])),
            # The gradient holds for log_probs that are logarithms of probabilities.
            smooth=False,
            twice=False,
            same_bits=False,
            batch=(0, 1),
        ),
    ),
    "nn.functional.embedding": (
        Sample(lambda ns, i, w: ns.nn.functional.embedding(i, w), (ROWS, spread(RNG, (4, 3)))),
    ),
    "nn.functional.embedding_bag": (
        Sample(
            lambda ns, i, w: ns.nn.functional.embedding_bag(i, w, mode="mean"),
            (ROWS, spread(RNG, (4, 3))),
        ),
        Sample(
            lambda ns, i, w, s: ns.nn.functional.embedding_bag(
                i, w, mode="sum", per_sample_weights=s
            ),
            (ROWS, spread(RNG, (4, 3)), spread(RNG, (2, 5))),
            variant="weighted",
        ),
    ),
    "nn.functional.grid_sample": (
        Sample(
            lambda ns, x, grid: ns.nn.functional.grid_sample(x, grid, align_corners=False),
            (spread(RNG, (2, 3, 4, 5)), RNG.uniform(-1, 1, (2, 3, 2, 2)).astype(np.float32)),
            smooth=False,
            same_bits=False,
        ),
    ),
    "nn.functional.interpolate": (
        Sample(
            lambda ns, x: ns.nn.functional.interpolate(x, (7, 3), mode="bicubic"),
            (spread(RNG, (2, 3, 4, 5)),),
            same_bits=False,
        ),
        Sample(
            lambda ns, x: ns.nn.functional.interpolate(x, 11),
            (spread(RNG, (2, 3, 7)),),
            variant="nearest",
            same_bits=False,
        ),
    ),
    "nn.functional.nll_loss": (
        Sample(
            lambda ns, x, t: ns.nn.functional.nll_loss(x, t),
            (spread(RNG, (8, 5)), CLASSES),
            same_bits=False,
        ),
    ),
    "nn.functional.pad": (
        Sample(
            lambda ns, x: ns.nn.functional.pad(x, (2, 3, 1, 3), mode="reflect"),
            (spread(RNG, (2, 3, 4, 5)),),
        ),
        Sample(
            lambda ns, x: ns.nn.functional.pad(x, (1, 2, 2, 1), mode="replicate"),
            (spread(RNG, (2, 3, 4, 5)),),
            variant="replicate",
            transformed=False,
        ),
    ),
    "nn.functional.scaled_dot_product_attention": (
        Sample(
            lambda ns, q, k, v, mask: ns.nn.functional.scaled_dot_product_attention(q, k, v, mask),
            tuple(
                RNG.standard_normal(shape).astype(np.float32)
                for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 3), (3, 5))
            ),
            same_bits=False,
            batch=(0, 1, 2),
        ),
    ),
}
