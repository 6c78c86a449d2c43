"""The mode over programs that do not call this package, but ``jax.numpy``, Flax or Optax.

``import impl`` gives JAX's own scatters lowering rules that read the mode, so that
``impl.use_deterministic_algorithms(True)`` holds for every program. With the mode off a program is
lowered as JAX lowers it. The mode that holds while a program is compiled decides.

To import ``impl`` without these rules, set the environment variable ``SAMEBITS_PROGRAMS=0``.
"""

# The modules: ``_auditing`` is ``impl.audit``, and ``_differences`` is ``impl.first_difference``.

from __future__ import annotations

import importlib
import os
import threading
import warnings
from typing import TYPE_CHECKING

from impl._core import contexts, modules, ordered_primitives
from impl._exact import (
    arithmetic as arithmetic,
)  # A user context has to be made before threads start.
from impl._mode import modes
from impl._portable import derivatives
from impl._run_to_run import rules

if TYPE_CHECKING:
    from impl.programs._auditing.report import Finding, Report
    from impl.programs._differences.comparison import Difference, Recording
    from impl.programs._differences.first_difference import record

__all__ = [
    "Difference",
    "Finding",
    "Recording",
    "Report",
    "are_enabled",
    "disable",
    "enable",
    "record",
]

#: The modules of names that few programs use.
_LATER = {
    "Difference": "_differences.comparison",
    "Finding": "_auditing.report",
    "Recording": "_differences.comparison",
    "Report": "_auditing.report",
    "record": "_differences.first_difference",
}


if not TYPE_CHECKING:
    __getattr__ = modules.names(
        __name__, {name: f"impl.programs.{m}" for name, m in _LATER.items()}
    )


def disable() -> None:
    """Leaves JAX's own primitives to JAX in the whole process, also while the mode is on.

    Functions of ``impl`` are composed of these primitives. With the mode on, those that race on a
    device then raise there. Programs that are compiled already are compiled again when they are
    called.
    """
    contexts.switch.set_global(False)


def enable() -> None:
    """Makes the mode hold for JAX's own primitives again, after ``disable``.

    Raises:
        RuntimeError: The rules were not registered when ``impl`` was imported, because
            ``SAMEBITS_PROGRAMS=0`` was set or JAX did not allow it.
    """
    if not ordered_primitives.are_registered():
        raise RuntimeError(
            "the rules for JAX's primitives are not registered: SAMEBITS_PROGRAMS=0 was set when "
            "impl was imported, or this release of JAX lacks what they need"
        )
    contexts.switch.set_global(True)


def are_enabled() -> bool:
    """Returns whether the mode holds for JAX's own primitives."""
    return ordered_primitives.holds()


def _warn_of_no_rules() -> None:
    """Warns where the guarantee ``portable`` is asked for and JAX's primitives have no rules."""
    if not ordered_primitives.holds():
        warnings.warn(
            "impl: guarantee='portable' has no effect on JAX's own primitives, so that programs "
            f"may give other bits on another device. {ordered_primitives.how_to_enable()}",
            RuntimeWarning,
            stacklevel=4,
        )


def _register_portable() -> None:
    """Registers the rules of the guarantee when it is asked for, since they take long to import.

    Programs that were compiled before are lowered again, because the guarantee is part of the key
    of JAX's caches.
    """
    with _registering:
        importlib.import_module("impl._portable.register").register()


_registering = threading.Lock()
modes.when_portable(_warn_of_no_rules)
if os.environ.get("SAMEBITS_PROGRAMS", "1") != "0":
    rules.register()
    if ordered_primitives.are_registered():
        modes.when_portable(_register_portable)
        derivatives.register()
