"""Programs of ``jax.export`` that call each other under the guarantee ``portable``.

A rule cannot read an exported program again, so the program carries a mark of the guarantee that it
was lowered with. One without the mark is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import spec
from impl._core import jax_internals
from impl._core.jax_internals import lowering, shardings
from impl._mode.modes import Mode

#: The primitive that calls an exported program, and its parameter with the program.
NAME = "call_exported"
_PROGRAM = "exported"
#: The attribute of a module that names the guarantee of all its operations.
_MARK = "samebits.guarantee"
#: The least number of devices of a mesh with three axes, over which XLA computes wrong values for
#: some products. An exported program has nothing against that.
_DEVICES = 8


def mark(context: Any, mode: Mode) -> None:
    """Marks a program that is exported now, all of whose operations have the guarantee.

    An operation without it raises an error, unless the mode only warns.

    Args:
        context: That of a lowering rule, under the guarantee ``portable``.
        mode: The mode.
    """
    if jax_internals.exports(context) and not mode.warn_only:
        lowering.mark_module(context, _MARK, mode.guarantee)


def portability(found: spec.Portability, params: Mapping[str, Any]) -> spec.Portability:
    """Returns the class of the call of an exported program.

    Args:
        found: The class of those without the mark, which refuses them.
        params: The parameters of the equation.
    """
    if lowering.mark_of_module(params[_PROGRAM], _MARK) != "portable":
        return found
    return dataclasses.replace(found, answer="exact")


def on_devices(context: Any, found: spec.Portability) -> spec.Portability:
    """Returns the class of the call of an exported program on the devices of a program."""
    if found.answer == "refused" or shardings.is_local(context):
        return found
    if shardings.devices_of(context) < _DEVICES:
        return found
    return dataclasses.replace(
        found,
        answer="refused",
        reason=(
            f"on {_DEVICES} devices or more, XLA computes wrong values for some products of "
            "exported programs"
        ),
        remedy="Call it inside a `jax.shard_map` over all axes of the mesh, or call the function.",
    )
