"""How a CPU stands in for another device, so that its paths can be tested without one.

The user's side of this is ``impl.testing``. The state is part of the key of every ``jax.jit``
cache, as the mode is.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax


class Seed:
    """A seed that a program reads when it runs, so that one program serves for all schedules.

    Attributes:
        value: From 0, which keeps the order, to ``2**31 - 1``. Programs may run after the call
            that started them: wait for their results before it is changed.
    """

    def __init__(self) -> None:
        self.value = 0


@dataclasses.dataclass(frozen=True)
class Emulation:
    """What a CPU does in place of its own lowerings.

    Attributes:
        platform: The platform whose actions it carries out.
        lowering: ``kernel`` runs that platform's Pallas kernels in interpret mode, ``xla`` the
            plain XLA lowering that serves where there is no kernel, ``native`` the CPU's own.
        seed: Permutes the order in which programs and atomic updates run; None and 0 keep it.
            A ``Seed`` is read at each run.
    """

    platform: str
    lowering: Literal["kernel", "xla", "native"] = "kernel"
    seed: int | Seed | None = None


_emulation = jax.make_user_context(None)


def current() -> Emulation | None:
    """The emulation that holds in this thread."""
    return _emulation.value  # type: ignore[no-any-return]  # a user context is not typed


#: A context manager that sets it for this thread.
scope = _emulation
