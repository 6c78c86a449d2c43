"""A step of NumPyro's HMC on labels that several people gave to the same items.

The structure follows NumPyro's example ``annotation`` (Apache-2.0), with the item difficulty
model: https://github.com/pyro-ppl/numpyro/blob/master/examples/annotation.py
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import HMC, init_to_median

from conformance.programs._data import integers

ITEMS, PEOPLE, CLASSES, LABELS = 6, 4, 3, 200


def model(item: Any, person: Any, label: Any) -> None:
    """Each item has scores of its classes, and each person prefers some classes."""
    spread = numpyro.sample("spread", dist.HalfNormal(1).expand([CLASSES]).to_event(1))
    with numpyro.plate("items", ITEMS):
        score = numpyro.sample("score", dist.Normal(jnp.zeros(CLASSES), spread).to_event(1))
    with numpyro.plate("people", PEOPLE):
        taste = numpyro.sample("taste", dist.Normal(jnp.zeros(CLASSES), 1).to_event(1))
    with numpyro.plate("labels", len(label)):
        logits = score[item] + taste[person]
        numpyro.sample("label", dist.Categorical(logits=logits), obs=label)


def annotation(scale: int = 1) -> Any:
    """Returns a step of the sampler, and its arguments."""
    labels = LABELS * scale
    data = integers(0, ITEMS, labels), integers(1, PEOPLE, labels), integers(2, CLASSES, labels)
    sampler = HMC(
        model,
        num_steps=4,
        step_size=0.02,
        trajectory_length=None,
        adapt_step_size=False,
        init_strategy=init_to_median(),
    )
    start = jax.jit(lambda key, data: sampler.init(key, 0, None, data, {}))
    state = start(jax.random.PRNGKey(0), data)

    def step(state: Any, *data: Any) -> Any:
        state = sampler.sample(state, data, {})
        return state, state.potential_energy

    return step, (state, *data)
