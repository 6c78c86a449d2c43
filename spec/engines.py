"""Answers which engine of ``portable`` a device has: what stands for float64 there.

The table is ``engines.toml``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType

from spec import loader

#: The engine of a platform that the table does not name. Nothing replaces its float64.
DEFAULT = "float64"


@dataclasses.dataclass(frozen=True)
class Engine:
    """An engine: the numbers that it computes with, as a part of a sentence, and who has it.

    These are platforms of JAX, compute capabilities of NVIDIA's GPUs, and kinds of devices.
    """

    name: str
    statement: str
    platforms: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Returns the engines by name, in the order of the table."""
    table = loader.read_table(loader.ROOT, "engines.toml")
    frozen = {name: Engine(name, **loader.frozen(fields)) for name, fields in table.items()}
    return MappingProxyType(frozen)


def engine_of(platform: str, *, capability: str | None = None, kind: str | None = None) -> str:
    """Returns the name of the engine of a device.

    Args:
        platform: JAX's name of its platform. A platform without an engine has ``DEFAULT``.
        capability: The compute capability of a GPU of NVIDIA, such as "8.9", if it is known.
        kind: The kind of the device, as JAX names it, if it is known.
    """
    if platform == "cuda":
        for engine in engines().values():
            if capability in engine.capabilities or kind in engine.kinds:
                return engine.name
    named = (engine.name for engine in engines().values() if platform in engine.platforms)
    return next(named, DEFAULT)


def of_several(names: frozenset[str]) -> str:
    """Returns the engine of a program for devices with these engines: the last of them."""
    return [name for name in engines() if name in names][-1]
