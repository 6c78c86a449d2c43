"""Programs as users write them, with Flax, Equinox, Diffrax, Jraph, NumPyro, BlackJAX and Optax.

None of them mentions this project. The tests, the lab and the benchmarks run them with the mode off
and on. ``plain`` has those that need no library.

Each other module has the programs of a library: ``flax_cnn`` is ``cnn`` of the module ``flax``. It
returns a step of a training or of a sampler, and its arguments. All are small, so that XLA compiles
each in a second or two.

The programs ``flax_seq2seq``, ``flax_molecules``, ``equinox_mnist``, ``equinox_vision``,
``numpyro_annotation`` and ``blackjax_tempered`` have the structure of public examples of these
libraries, which their docstrings name. The lines are new.

The libraries are in the dependency group ``programs``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeAlias

# Equinox reads it when it is imported: a check that fails gives NaN, and needs no callback.
os.environ.setdefault("EQX_ON_ERROR", "nan")

#: A step, and its arguments.
Program: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

#: The programs, in the order of reports.
NAMES = (
    "flax_cnn",
    "flax_unet",
    "flax_experts",
    "flax_seq2seq",
    "flax_molecules",
    "equinox_mnist",
    "equinox_vision",
    "jraph_attention",
    "numpyro_annotation",
    "blackjax_tempered",
)
#: Longer programs, which are compared under ``portable`` on one device and on eight.
WHOLE = ("nnx_gpt", "flax_augmented", "equinox_graph_ode", "optax_ppo")
#: The packages that the programs import.
REQUIREMENTS = ("blackjax", "diffrax", "equinox", "flax", "jraph", "numpyro", "optax")


def build(name: str, scale: int = 1) -> Program:
    """Returns the step of a program, and its arguments, of ``scale`` as many examples."""
    library, _, own = name.partition("_")
    module = importlib.import_module(f"{__name__}.{library}")
    program: Program = getattr(module, own)(scale)
    return program


def trained(
    value_and_grad: Any, apply: Any, loss: Any, optimizer: Any, params: Any, *data: Any
) -> Program:
    """Returns a step of training by an optimizer of Optax, and its arguments.

    ``value_and_grad`` and ``apply`` are the library's derivative of a loss, which takes parameters
    and data, and its addition of updates to parameters.
    """

    def step(params: Any, state: Any, *data: Any) -> Any:
        value, gradients = value_and_grad(loss)(params, *data)
        updates, state = optimizer.update(gradients, state, params)
        return apply(params, updates), state, value

    return step, (params, optimizer.init(params), *data)
