"""Trains a small convolutional net on handwritten digits and prints its weights' SHA-256.

The images are scikit-learn's, 8 by 8 with 17 grey levels. Each level has an embedding;
convolutions and pooling follow. Two workers load the images and shift them at random. Run it twice,
on any number of threads: the lines are the same.

    python docs/examples/digits.py
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import impl
from impl.nn import functional as F  # noqa: N812  # As in PyTorch's own examples.
from impl.utils.data import DataLoader

Weights: TypeAlias = dict[str, jax.Array]

HELD_OUT = 297
LEVELS = 17


class ShiftedDigits:
    """Images of digits, shifted by up to one pixel. Each read of an image draws a new shift.

    Attributes:
        images: Grey levels, [n, 8, 8] int32.
        labels: Digits, [n] int32.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int32]:
        # These are a worker's own generators. The loader seeds both.
        down, right = random.randint(-1, 1), np.random.randint(-1, 2)
        return np.roll(self.images[index], (down, right), axis=(0, 1)), self.labels[index]


def seed_worker(worker_id: int) -> None:  # noqa: ARG001  # The loader passes it.
    """Seeds the generators of a worker, as PyTorch's notes on reproducibility recommend."""
    worker_seed = impl.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


def initial_weights(generator: impl.Generator) -> Weights:
    """Returns small random weights."""
    weights = {
        name: jax.random.normal(generator.key(), shape) * scale
        for name, shape, scale in (
            ("levels", (LEVELS, 4), 1.0),
            ("first", (16, 4, 3, 3), 0.2),
            ("second", (32, 16, 3, 3), 0.1),
            ("out", (128, 10), 0.1),
        )
    }
    biases = {"first_bias": jnp.zeros(16), "second_bias": jnp.zeros(32), "out_bias": jnp.zeros(10)}
    return weights | biases


def scores(weights: Weights, images: jax.Array) -> jax.Array:
    """Returns a score for each digit: [n, 8, 8] to [n, 10]."""
    x = jnp.moveaxis(F.embedding(images, weights["levels"]), 3, 1)
    x = jax.nn.relu(F.conv2d(x, weights["first"], weights["first_bias"], padding=1))
    x = jnp.asarray(F.max_pool2d(x, 2))
    x = jax.nn.relu(F.conv2d(x, weights["second"], weights["second_bias"], padding=1))
    x = F.avg_pool2d(x, 2)
    return impl.mm(x.reshape(len(x), -1), weights["out"]) + weights["out_bias"]


def loss(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean cross entropy."""
    return F.cross_entropy(scores(weights, images), labels)


OPTIMIZER = optax.sgd(0.05, momentum=0.9)


@impl.jit
def update(
    weights: Weights, state: optax.OptState, images: jax.Array, labels: jax.Array
) -> tuple[Weights, optax.OptState, jax.Array]:
    """Returns the new weights, the optimizer's new state, and the loss before the step."""
    value, gradient = jax.value_and_grad(loss)(weights, images, labels)
    change, state = OPTIMIZER.update(gradient, state)
    return optax.apply_updates(weights, change), state, value


@impl.jit
def accuracy(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the share of the images whose digit has the highest score."""
    return jnp.mean(jnp.argmax(scores(weights, images), axis=1) == labels)


def fingerprint(weights: Weights) -> str:
    """Returns the SHA-256 of every bit of the weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(np.asarray(weights[name]).tobytes())
    return digest.hexdigest()


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, help="number of images to train on (default: all)")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["on", "off"], default="on")
    parser.add_argument(
        "--schedule",
        type=int,
        metavar="SEED",
        help="run the kernels for GPUs, interpreted, in an order that SEED permutes (slow)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, and prints a line for each epoch."""
    chosen = options(arguments)
    impl.use_deterministic_algorithms(chosen.mode == "on", profile="complete")
    impl.seed_everything(chosen.seed)
    generator = impl.Generator()
    generator.manual_seed(chosen.seed)

    digits = load_digits()
    images, labels = digits.images.astype(np.int32), digits.target.astype(np.int32)
    loader = DataLoader(
        ShiftedDigits(images[:-HELD_OUT][: chosen.images], labels[:-HELD_OUT][: chosen.images]),
        batch_size=chosen.batch_size,
        shuffle=True,
        num_workers=chosen.workers,
        worker_init_fn=seed_worker,
        generator=generator,
        drop_last=True,
        persistent_workers=chosen.workers > 0,
    )
    weights = initial_weights(impl.default_generator)
    state: Any = OPTIMIZER.init(weights)
    seed = chosen.schedule
    with contextlib.nullcontext() if seed is None else impl.testing.schedule(seed):
        for epoch in range(1, chosen.epochs + 1):
            losses = []
            for batch in loader:
                weights, state, value = update(weights, state, *batch)
                losses.append(float(value))
            right = float(accuracy(weights, images[-HELD_OUT:], labels[-HELD_OUT:]))
            print(
                f"epoch {epoch}: loss {np.mean(losses):.4f}, accuracy {right:.4f}, "
                f"weights {fingerprint(weights)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
