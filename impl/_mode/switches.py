"""The switches of backends: settings beside the mode that choose how a program is compiled.

As the mode does, they live in a JAX user context, so that changing one traces again.

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
        cudnn_benchmark: Whether algorithms are picked by timing them.
        cudnn_deterministic: Whether convolutions take only algorithms that give the same bits in
            each run; the mode has them do so too.
    """

    cudnn_benchmark: bool = False
    cudnn_deterministic: bool = False

    def facts(self, mode: Mode) -> spec.Facts:
        """What the rows of kind ``backend`` and ``compiler`` ask of, as it stands with ``mode``."""
        return {
            "deterministic_algorithms": mode.enabled,
            "cudnn_benchmark": self.cudnn_benchmark,
            "cudnn_deterministic": self.cudnn_deterministic or mode.enabled,
        }


# Made once, at import: making a user context is not thread-safe (jax.make_user_context).
_switches = jax.make_user_context(Switches())


def current() -> Switches:
    """The switches as they stand in this thread."""
    return _switches.value  # type: ignore[no-any-return]  # a user context is not typed


def turn(name: str, value: bool) -> None:
    """Turns a switch for the whole process; a thread inside a ``scope`` keeps what that says.

    Raises:
        RuntimeError: ``value`` is not a bool (PyTorch's choice of exception).
    """
    _switches.set_global(dataclasses.replace(_switches.get_global(), **_checked({name: value})))


@contextlib.contextmanager
def scope(**values: bool) -> Iterator[None]:
    """Turns switches inside, for this thread only.

    Raises:
        RuntimeError: A value is not a bool (PyTorch's choice of exception).
    """
    with _switches(dataclasses.replace(current(), **_checked(values))):
        yield


def _checked(values: dict[str, Any]) -> dict[str, bool]:
    for name, value in values.items():
        if not isinstance(value, bool):
            raise RuntimeError(  # noqa: TRY004  # PyTorch's choice
                f"set_{name} expects a bool, but got {type(value).__name__}"
            )
    return values
