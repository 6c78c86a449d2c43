"""A check that a kernel writes every element of its result, and data for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from impl._kernels.launch import Launch
from impl.tests.support.bits import bits
from impl.tests.support.numbers import spread


@dataclasses.dataclass(frozen=True)
class ComparingLaunch(Launch):
    """Runs every kernel over memory with two contents, and compares the results."""

    launched: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, kernel, grid, out, *args, **options):
        results = [
            Launch(True, self.seed, fill)(kernel, grid, out, *args, **options)
            for fill in (True, False)
        ]
        for filled, zeroed in zip(*map(jax.tree.leaves, results), strict=True):
            unwritten = np.asarray(filled != zeroed) & ~np.isnan(zeroed)
            assert bits(filled) == bits(zeroed), (
                f"{options['name']} left {unwritten.sum()} of {unwritten.size} elements unwritten, "
                f"the first at {np.argwhere(unwritten)[:1].tolist()}"
            )
        self.launched.append(options["name"])
        return results[0]


def assert_every_element_is_written(kernel, calls):
    """Runs calls of a kernel, each of which takes a launch and the kernel."""
    for call in calls:
        launch = ComparingLaunch(True, 1)
        call(launch, kernel)
        assert launch.launched


def assert_no_result_has_unwritten_elements(kernel, calls):
    """Runs calls of a function whose kernels leave elements unwritten that no kernel reads."""
    for call in calls:
        filled, zeroed = (call(Launch(True, 1, fill), kernel) for fill in (True, False))
        assert list(map(bits, filled)) == list(map(bits, zeroed))


def floats(*shape):
    return jnp.asarray(spread(np.random.default_rng(shape), shape))


def indices(shape, size):
    """Indices, some of which are out of range."""
    return jnp.asarray(np.random.default_rng(shape).integers(-1, size + 1, shape), jnp.int32)
