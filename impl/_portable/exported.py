"""Programs of ``jax.export`` that call each other under the guarantee ``portable``.

An exported program is StableHLO, which this project does not read. So the program carries a mark of
the guarantee that it was lowered with, an attribute of its module. A call of a program without the
mark is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import spec
from impl import _jax
from impl._jax import lowering, shardings, tags
from impl._mode.modes import Mode

#: The primitive that calls an exported program, and its parameter with the program.
NAME = "call_exported"
_PROGRAM = "exported"
#: The attribute of a module that names the guarantee of all its operations.
_MARK = "samebits.guarantee"
#: The value of the attribute where a scope lets a part of the program have no guarantee.
_OF_PARTS = "of parts"
#: The least number of devices of a mesh with three axes. XLA computes wrong values for some
#: products over such a mesh. A program that is not exported works around that; an exported one
#: cannot.
_DEVICES = 8


def mark(context: Any, mode: Mode) -> None:
    """Marks a program that is exported now, if all of its operations have the guarantee.

    An operation without it raises an error, unless the mode only warns, or a scope inside of the
    program has another mode.
    """
    if not _jax.exports(context):
        return
    is_scoped = tags.current() is not None
    if is_scoped and not mode.portable:
        lowering.mark_module(context, _MARK, _OF_PARTS)
    elif not is_scoped and mode.portable and not mode.warn_only:
        lowering.mark_module(context, _MARK, mode.guarantee, unless=True)


def portability(refused: spec.Portability, params: Mapping[str, Any]) -> spec.Portability:
    """Returns the class of a call of an exported program, which is ``refused`` without the mark."""
    if lowering.mark_of_module(params[_PROGRAM], _MARK) != "portable":
        return refused
    return dataclasses.replace(refused, answer="exact")


def on_devices(context: Any, portability: spec.Portability) -> spec.Portability:
    """Returns the class of a call of an exported program, which is refused on many devices."""
    if portability.answer == "refused" or shardings.is_local(context):
        return portability
    if shardings.devices_of(context) < _DEVICES:
        return portability
    return dataclasses.replace(
        portability,
        answer="refused",
        reason=(
            f"on {_DEVICES} devices or more, XLA computes wrong values for some products of "
            "exported programs"
        ),
        remedy="Call it inside a `jax.shard_map` over all axes of the mesh, or call the function.",
    )
