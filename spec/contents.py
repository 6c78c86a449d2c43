"""The content of all files of the spec, and the questions that it answers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType

from spec.model import (
    Behaviour,
    Data,
    Device,
    Document,
    Fact,
    Hint,
    Kind,
    Order,
    Portability,
    Primitive,
    Profile,
    Row,
    SpecError,
)

#: A primitive in no class is refused.
_REFUSED = Portability("", "refused")


@dataclasses.dataclass(frozen=True)
class Spec:
    """The content of the files under ``spec/``, read and frozen.

    ``releases`` are the releases of PyTorch that a row may name, from the oldest to the newest.
    ``primitives`` are the rows about the primitives of JAX; ``rows`` are all others.
    ``portable`` has the classes of JAX's primitives under the guarantee ``portable``, by name;
    ``unlisted`` is about primitives in no class, and ``other_dtypes`` about floats that a class
    does not have. ``refused_platforms`` are the platforms of JAX with floats that it refuses there.
    ``hints`` have advice on the equations of libraries.
    """

    rows: tuple[Row, ...]
    profiles: Mapping[str, Profile]
    orders: Mapping[str, Order]
    facts: Mapping[str, Fact]
    devices: Mapping[str, Device]
    documents: Mapping[str, Document]
    data: Data
    releases: tuple[str, ...] = ()
    primitives: tuple[Primitive, ...] = ()
    portable: Mapping[str, Portability] = dataclasses.field(default_factory=dict)
    unlisted: Portability = _REFUSED
    other_dtypes: Portability = _REFUSED
    refused_platforms: Mapping[str, Portability] = dataclasses.field(default_factory=dict)
    hints: tuple[Hint, ...] = ()

    @functools.cached_property
    def class_of_primitive(self) -> Mapping[str, Portability]:
        """The class of ``portable.toml`` that each primitive of JAX is in, for real numbers."""
        return self._classes(of_complex=False)

    @functools.cached_property
    def class_of_complex(self) -> Mapping[str, Portability]:
        """The class of ``portable.toml`` that a primitive is in for complex numbers."""
        return self._classes(of_complex=True)

    def _classes(self, *, of_complex: bool) -> Mapping[str, Portability]:
        found = [each for each in self.portable.values() if each.of_complex == of_complex]
        return MappingProxyType({name: each for each in found for name in each.primitives})

    @functools.cached_property
    def op_of_primitive(self) -> Mapping[str, str]:
        """The op that rows have for each primitive, by the name of the primitive in a jaxpr."""
        names = {name: row.op for row in self.primitives for name in row.primitives}
        return MappingProxyType(names)

    def hint(self, primitive: str, package: str | None) -> str | None:
        """Returns the advice on an equation that a library makes; None if there is none.

        Args:
            primitive: The name of its primitive, as in a jaxpr.
            package: The library; None for an equation that the user's own code makes.
        """
        found = (h for h in self.hints if h.library == package and primitive in h.primitives)
        return next((hint.remedy for hint in found), None)

    @property
    def default_profile(self) -> str:
        """The profile that holds if nobody chose one."""
        return next(p.name for p in self.profiles.values() if p.default)

    @functools.cached_property
    def own_profile(self) -> str | None:
        """The profile of this project, which decides calls that other profiles do not list."""
        return next((p.name for p in self.profiles.values() if not p.release), None)

    def decider(self, device: str, profile: str) -> str:
        """Returns the device whose rows decide about calls on a device under a profile.

        It is another device under our own profile, if no row names the device: PyTorch's profiles
        do not list it, and our own profile has an ordered path for every device.
        """
        known = self.devices.get(device)
        like = known.like if known and profile == self.own_profile else None
        return like or device

    @functools.cached_property
    def platforms(self) -> Mapping[str, Device]:
        """The device that each platform of JAX is; on other platforms only rows for any decide."""
        devices = {name: d for d in self.devices.values() for name in d.platforms}
        return MappingProxyType(devices)

    @functools.cached_property
    def backends(self) -> Mapping[str, Device]:
        """The device that each backend of JAX computes on, by ``jax.default_backend()``."""
        devices = {name: d for d in self.devices.values() for name in d.backends}
        return MappingProxyType(devices)

    def row(self, id: str) -> Row:
        """Returns the row with this id.

        Raises:
            KeyError: No row has it.
        """
        for row in (*self.rows, *self.primitives):
            if row.id == id:
                return row
        raise KeyError(f"no row has the id {id!r}")

    def select(
        self,
        *,
        profile: str | None = None,
        behaviour: Behaviour | None = None,
        op: str | None = None,
        kind: Kind | None = None,
        active: bool | None = None,
    ) -> tuple[Row, ...]:
        """Returns the ``rows`` that match every argument given, in the order of the files.

        ``behaviour`` is that under ``profile``. A profile alone selects the rows that it lists.

        Raises:
            SpecError: ``behaviour`` is given without a profile.
        """
        if behaviour is not None and profile is None:
            raise SpecError("select: behaviour needs a profile to look it up under")
        return tuple(
            row
            for row in self.rows
            if (op is None or row.op == op)
            and (kind is None or row.kind == kind)
            and (active is None or row.active is active)
            and (profile is None or row.behaviour[profile] is not None)
            and (behaviour is None or profile is None or row.behaviour[profile] == behaviour)
        )
