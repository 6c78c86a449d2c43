"""The stand-in: a CPU acts as another device, so that a machine without a GPU tests its paths.

Users turn it on with ``impl.testing``. The state is part of the key of every ``jax.jit`` cache, as
the mode is.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

import jax

#: How a CPU stands in for a platform: see ``Emulation``.
Lowering: TypeAlias = Literal["kernel", "xla", "native"]


class Seed:
    """A seed that a compiled program reads when it runs, so that it need not be compiled again.

    Attributes:
        value: The seed, from 0 to ``2**31 - 1``; 0 keeps the order. A program may still run after
            its call has returned: wait for its result before you change the value.
    """

    def __init__(self) -> None:
        self.value = 0


@dataclasses.dataclass(frozen=True)
class Emulation:
    """The platform that a CPU stands in for, and how.

    Attributes:
        platform: The platform whose actions the CPU carries out.
        lowering: ``kernel`` interprets the Pallas kernels, ``xla`` takes the XLA lowering for a
            platform without kernels, ``native`` takes the lowering for a CPU.
        seed: Permutes the sequence of kernel instances and of atomic updates; None and 0 keep it.
            A ``Seed`` is read at each run.
    """

    platform: str
    lowering: Lowering = "kernel"
    seed: int | Seed | None = None


_emulation = jax.make_user_context(None)


def current() -> Emulation | None:
    """Returns the stand-in of this thread; None if there is none."""
    return _emulation.value  # type: ignore[no-any-return]  # a user context is not typed


#: A context manager that sets the stand-in of this thread.
scope = _emulation
