"""Steps of training of the examples in ``docs/examples``, as functions and their arguments."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

#: A function of arrays, and its arguments: arrays, or their shapes and dtypes, in trees.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

_EXAMPLES = Path(__file__).parents[3] / "docs/examples"


def of(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """Returns a shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _example(name: str) -> Any:
    """Returns an example of the documents as a module of its own, which nothing else changes.

    Raises:
        FileNotFoundError: This is no checkout.
    """
    path = _EXAMPLES / f"{name}.py"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here: the examples are in a checkout alone")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def portable(**sizes: int) -> Call:
    """Returns the step of ``portable.py``, with one layer in place of two.

    Args:
        **sizes: Other sizes of the example, such as ``WIDTH``.
    """
    example = _example("portable")
    for name, size in {"LAYERS": 1, **sizes}.items():
        setattr(example, name, size)
    weights = jax.eval_shape(example.initial, jax.random.key(0))
    words = of(example.BATCH, example.LENGTH + 1, dtype=np.int32)
    return example.step, ((weights, weights, weights, of()), words)


def resume() -> Call:
    """Returns the step of ``resume.py``."""
    example = _example("resume")
    return example.train, (example.first_state(), of(16, 8))


def processes() -> Call:
    """Returns the step of ``processes.py``."""
    example = _example("processes")
    width = example.WIDTH
    return example.step, (of(width, example.CLASSES), of(example.BATCH, width + 1))


def micro_batches() -> Call:
    """Returns the step of ``micro_batches.py`` for one micro-batch of two."""
    example = _example("micro_batches")
    width, every = example.WIDTH, 2
    weights = {"in": of(width, width), "bias": of(width), "out": of(width, 2)}
    optimizer = example.MultiSteps(example.optax.sgd(1e-2, momentum=0.9), every)

    def step(weights: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
        updates, state = optimizer.update(jax.grad(example.loss), state, weights, x, y)
        return example.optax.apply_updates(weights, updates), state

    state = jax.eval_shape(optimizer.init, weights)
    rows = example.BATCH // every
    return step, (weights, state, of(rows, width), of(rows, 2))


def digits() -> Call:
    """Returns the step of ``digits.py`` on eight images."""
    example = _example("digits")
    weights = example.initial_weights(example.impl.Generator())
    state = jax.eval_shape(example.OPTIMIZER.init, weights)
    images, labels = of(8, 8, 8, dtype=np.int32), of(8, dtype=np.int32)
    return example.update.__wrapped__, (weights, state, images, labels)


def one_policy() -> Call:
    """Returns the step of ``one_policy.py``: two micro-batches, and one layer in place of two."""
    example = _example("one_policy")
    example.LAYERS = 1
    weights = jax.tree.map(jnp.asarray, example.initial("float32"))
    shape = (2, example.SEQUENCES // 2, example.LENGTH)
    batch = {
        "tokens": of(*shape, dtype=np.int32),
        "logs": of(*shape[:2], example.LENGTH - 1),
        "live": of(*shape[:2], example.LENGTH - 1, dtype=bool),
        "advantages": of(*shape[:2]),
    }
    return example.updated.__wrapped__, (weights, batch, of())
