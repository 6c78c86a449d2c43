"""The switches of ``impl.backends``: settings besides the mode that affect how XLA compiles.

Like the mode they are a JAX user context, so JAX traces a function again when a switch changes.

Source: PyTorch's ``torch.backends.cudnn``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax

import spec
from impl._mode.modes import Mode


@dataclasses.dataclass(frozen=True)
class Switches:
    """The state of every switch.

    Attributes:
        cudnn_benchmark: Whether XLA may pick algorithms by timing them.
        cudnn_deterministic: Whether convolutions take only algorithms that give the same bits in
            each run. With the mode on this always holds.
    """

    cudnn_benchmark: bool = False
    cudnn_deterministic: bool = False

    def facts(self, mode: Mode) -> spec.Facts:
        """Returns the facts on which rows of the kinds ``backend`` and ``compiler`` depend."""
        return {
            "deterministic_algorithms": mode.enabled,
            "cudnn_benchmark": self.cudnn_benchmark,
            "cudnn_deterministic": self.cudnn_deterministic or mode.enabled,
        }


# At import, because jax.make_user_context is not thread-safe.
_switches = jax.make_user_context(Switches())


def current() -> Switches:
    """Returns the switches of this thread."""
    return _switches.value  # type: ignore[no-any-return]  # a user context is not typed


def of_process() -> Switches:
    """Returns the switches of threads that are in no scope."""
    return _switches.get_global()  # type: ignore[no-any-return]  # as above


def turn(name: str, value: bool) -> None:
    """Sets a switch for the whole process; a thread inside a ``scope`` keeps its own switches."""
    _switches.set_global(dataclasses.replace(of_process(), **_checked({name: value})))


@contextlib.contextmanager
def scope(**values: bool) -> Iterator[None]:
    """Sets switches inside the scope, for this thread only."""
    with _switches(dataclasses.replace(current(), **_checked(values))):
        yield


def _checked(values: dict[str, Any]) -> dict[str, bool]:
    for name, value in values.items():
        if not isinstance(value, bool):
            raise RuntimeError(  # noqa: TRY004  # PyTorch's choice
                f"set_{name} expects a bool, but got {type(value).__name__}"
            )
    return values
