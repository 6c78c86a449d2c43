"""Answers which functions of JAX have other equations, or other bits, in another release of JAX.

The list is ``releases_of_jax.toml``, which ``nox -s releases`` writes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType

from spec import loader


@dataclasses.dataclass(frozen=True)
class Otherwise:
    """A function that releases of JAX write with other equations.

    Attributes:
        name: Its public name.
        file: The file of JAX that it is in, from the folder of packages on.
        function: The name of its code there.
        bits: The derivatives that have other bits; 0 is the function itself.
        borders: Those that have other bits only at borders, such as 0, infinity and NaN.
        text: Those that have other equations, and the same bits at these arguments, or no path.
        untried: Those that did not end in time with one release.
    """

    name: str
    file: str
    function: str
    bits: tuple[int, ...] = ()
    borders: tuple[int, ...] = ()
    text: tuple[int, ...] = ()
    untried: tuple[int, ...] = ()

    @property
    def orders(self) -> tuple[int, ...]:
        """The derivatives that may have other bits; 0 is the function itself."""
        return tuple(sorted(self.bits + self.borders + self.untried))


@functools.cache
def functions() -> tuple[Otherwise, ...]:
    """Returns the functions, in the order of their names."""
    tables = loader.read_table(loader.ROOT, "releases_of_jax.toml").get("function", [])
    return tuple(Otherwise(**loader.frozen(table)) for table in tables)


@functools.cache
def places() -> Mapping[tuple[str, str], Otherwise]:
    """Returns functions by their file and the name of their code.

    They are those that have other bits, or whose first derivatives have. Second derivatives differ
    for reasons that are in no function.
    """
    found = (each for each in functions() if each.file and set(each.orders) & {0, 1})
    return MappingProxyType({(each.file, each.function): each for each in found})
