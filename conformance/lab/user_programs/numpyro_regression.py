"""A step of NumPyro's NUTS on a regression in which each group has an offset."""

from __future__ import annotations

from typing import Any

import jax
import numpyro
from numpyro import distributions as dist
from numpyro.infer import NUTS, init_to_median

from conformance.lab.user_programs._data import integers, normal

GROUPS, POINTS = 7, 60


def model(group: Any, x: Any, y: Any) -> None:
    """A regression with an offset for each group and one slope."""
    centre = numpyro.sample("centre", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        offset = numpyro.sample("offset", dist.Normal(centre, spread))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("points", len(x)):
        numpyro.sample("y", dist.Normal(offset[group] + slope * x, noise), obs=y)


def build(scale: int = 1) -> Any:
    """Returns a step of the sampler, and its arguments."""
    points = POINTS * scale
    data = integers(0, GROUPS, points), normal(1, points), normal(2, points)
    sampler = NUTS(model, step_size=0.01, max_tree_depth=3, init_strategy=init_to_median())
    start = jax.jit(lambda key, data: sampler.init(key, 10, None, data, {}))
    state = start(jax.random.PRNGKey(0), data)

    def step(state: Any, *data: Any) -> Any:
        state = sampler.sample(state, data, {})
        return state, state.potential_energy

    return step, (state, *data)
