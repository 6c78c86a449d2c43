"""A step of BlackJAX's tempered sequential Monte Carlo, whose particles move by HMC.

The structure follows the chapter "Tempered SMC" of BlackJAX's sampling book (Apache-2.0), on a
mixture: https://blackjax-devs.github.io/sampling-book/algorithms/TemperedSMC.html
"""

from __future__ import annotations

from typing import Any

import blackjax
import blackjax.smc.resampling
import jax
import jax.numpy as jnp

from conformance.programs._data import integers, normal

PARTICLES, COMPONENTS = 16, 4


def tempered(scale: int = 1) -> Any:
    """Returns a step of the sampler, and its arguments."""

    def prior(centres: Any) -> Any:
        return -0.5 * jnp.sum(centres**2)

    def step(state: Any, key: Any, points: Any, component: Any) -> Any:
        def likelihood(centres: Any) -> Any:
            return -0.5 * jnp.sum((points - centres[component]) ** 2)

        sampler = blackjax.adaptive_tempered_smc(
            prior,
            likelihood,
            blackjax.hmc.build_kernel(),
            blackjax.hmc.init,
            blackjax.smc.extend_params(
                {
                    "step_size": 0.05,
                    "inverse_mass_matrix": jnp.ones(COMPONENTS),
                    "num_integration_steps": 3,
                }
            ),
            blackjax.smc.resampling.systematic,
            target_ess=0.5,
            num_mcmc_steps=1,
        )
        return sampler.step(key, state)

    state = blackjax.smc.tempered.init(normal(0, PARTICLES, COMPONENTS))
    state = jax.tree.map(jnp.asarray, state._replace(tempering_param=0.02))
    data = normal(1, 80 * scale), integers(2, COMPONENTS, 80 * scale)
    return step, (state, jax.random.key(0), *data)
