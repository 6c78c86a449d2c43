"""The spec and its records: rows, primitives, profiles, orders, facts, devices and documents.

``spec.loader`` makes them from the TOML files. They are frozen, so that everybody can share them. A
row names its order, its device, its profiles, its facts and its documents, each a record of its
own. The row R0059 of ``rows/cumsum.toml`` has these fields, among others::

    Row.id          "R0059"
    Row.op          "cumsum"
    Row.device      "cuda"                                a Device: platforms cuda and rocm, races
    Row.when        {"dtype": ("floating", "complex")}    a Fact: a choice of four values
    Row.condition   "when called on a CUDA array and the dtype is floating or complex"
    Row.behaviour   {"torch-1.10": None, "torch-2.12": "raise", "torch-2.15": "deterministic",
                     "complete": None}                    a Profile each
    Row.guarantee   "run_to_run"                          which runs give the same bits
    Row.callers     {"torch-2.12": "cumsum_cuda_kernel"}  the name in PyTorch's error
    Row.sources     a Source: the Document "list", releases 2.12 and 2.15, and a phrase of it
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

Behaviour: TypeAlias = Literal["deterministic", "raise", "fill"]
Direction: TypeAlias = Literal["forward", "backward"]
#: The effect of the mode on a call under a profile. ``ordered`` is listed by the documents of the
#: profile, and ``ordered_unlisted`` is not. ``same``: every run gives the same bits with the mode
#: off as well. ``unknown``: no row states what the call does.
Effect: TypeAlias = Literal["raises", "fills", "ordered", "ordered_unlisted", "same", "unknown"]
Guarantee: TypeAlias = Literal["not_guaranteed", "run_to_run", "portable"]
#: The effect of the guarantee ``portable`` on an equation.
PortableAnswer: TypeAlias = Literal["exact", "rule", "refused"]
Kind: TypeAlias = Literal["op", "random", "loader", "backend", "compiler", "note", "primitive"]
State: TypeAlias = Literal["active", "out_of_scope"]

BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
EFFECTS: tuple[Effect, ...] = get_args(Effect)
#: The effect of the behaviour that a profile lists.
LISTED: Mapping[Behaviour, Effect] = {
    "deterministic": "ordered",
    "raise": "raises",
    "fill": "fills",
}
KINDS: tuple[Kind, ...] = get_args(Kind)

#: The value of a fact, as an op states it about one call.
FactValue: TypeAlias = bool | int | str
#: The value of an option of XLA.
OptionValue: TypeAlias = bool | int | str
#: The test that a ``when`` puts to one fact: a value, a list of values (any of them), or a table
#: of ``not`` (none of these values), ``min`` and ``max``.
Test: TypeAlias = FactValue | tuple[FactValue, ...] | Mapping[str, Any]
Facts: TypeAlias = Mapping[str, FactValue]


class SpecError(Exception):
    """The spec, or a question put to it, is malformed."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A line of a document that a row or an erratum was taken from.

    Attributes:
        document: Key of ``documents.toml``.
        releases: The releases of the document that have the line.
        phrase: A few words by which a reader finds the line.
        file: The file of the document that has the line, if the document has several.
    """

    document: str
    releases: tuple[str, ...]
    phrase: str
    file: str | None = None


@dataclasses.dataclass(frozen=True)
class Erratum:
    """A difference between PyTorch's code and PyTorch's documents.

    Attributes:
        statement: One sentence for the reader.
        since: The first PyTorch release whose code does this.
        behaviour: The behaviour of the code, or None if the mode changes nothing.
        when: The calls that the code treats so. Empty means all calls that the row covers.
        sources: The evidence: at least one.
        since_is_bound: Whether releases before ``since`` may do it too, because nobody looked.
        until: The last release whose code does this; None if the newest does.
        calls: The calls that the code treats so, in English, where no fact describes them. The
            suite then expects what the documents list.
        device: The device that the erratum is about; None for the device of the row.
        caller: The op's name in the alert of the code, if it differs from the name in the row.
        unaffected_elsewhere: Whether the mode changes nothing for the other calls of the row,
            whatever the documents list.
    """

    statement: str
    since: str
    behaviour: Behaviour | None
    when: Mapping[str, Test]
    sources: tuple[Source, ...]
    since_is_bound: bool = False
    until: str | None = None
    calls: str | None = None
    device: str | None = None
    caller: str | None = None
    unaffected_elsewhere: bool = False

    def covers(self, device: str) -> bool:
        """Returns whether the erratum is about ``device``, if its row is."""
        return self.device in (None, device)


@dataclasses.dataclass(frozen=True)
class Row:
    """One entry of the spec.

    A row of kind ``op`` states what the mode does to calls of a function. The other kinds state
    what else a reproducible program needs. ``random`` and ``loader`` rows promise something that
    does not depend on the mode. ``backend`` and ``compiler`` rows name the options of XLA that
    hold under the condition ``when``, which is about the mode and the switches, not about a call.

    Attributes:
        id: Opaque, permanent, never used for another row.
        family: Name of the file that has the row, without its suffix. The suite's samples of the
            op are in the file of the same name.
        op: Dotted name of the function under ``impl``. For a ``compiler`` row, the name of
            something that XLA does.
        torch: The name by which PyTorch's documents list it.
        device: Name of the device that the row is about, or ``any``.
        direction: The call itself, or its derivative.
        when: The tests that the facts of a call must pass for the row to apply. Empty means that
            it always applies.
        condition: ``when``, device and direction in English (rendered, never written by hand).
        behaviour: The behaviour under each profile; None if the profile does not list the row.
        sources: At least one.
        guarantee: The promise with the mode on; None if the row is deterministic under no
            profile.
        order: Name of the order that fixes the result, or a sequence of additions, if one does.
        mode_off: ``not_guaranteed`` if, with the mode off, some calls give other bits from run to
            run; None if all calls repeat their bits.
        covers_backward: Whether a row of the forward direction decides the backward direction of
            the op too, because both make the same computation.
        switch: Name of the fact that selects the ordered path as the mode does, if there is one.
        callers: The op's name in an alert, by the profile that raises.
        message: The beginning of PyTorch's error, if that names no caller.
        errata: The differences between PyTorch's documents and code.
        kind: As above, or ``note`` for a line of the documents that is not about a single op.
        statement: The promise of a row whose kind is not ``op``, in a sentence.
        in_xla: The behaviour of XLA, instead of the thing that a ``compiler`` row is about.
        options: The options of XLA that a ``backend`` or ``compiler`` row sets, by name.
        caveat: The results that can still differ although the promise of ``statement`` is kept.
        state: ``active``, or ``out_of_scope`` with a reason.
        reason: The reason why the row is out of scope.
        note: Anything else that a reader has to know, in a sentence or two.
    """

    id: str
    family: str
    op: str
    torch: str
    device: str
    direction: Direction
    when: Mapping[str, Test]
    condition: str
    behaviour: Mapping[str, Behaviour | None]
    sources: tuple[Source, ...]
    guarantee: Guarantee | None = None
    order: str | None = None
    mode_off: Literal["not_guaranteed"] | None = None
    covers_backward: bool = False
    switch: str | None = None
    callers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    message: str | None = None
    errata: tuple[Erratum, ...] = ()
    kind: Kind = "op"
    statement: str | None = None
    in_xla: str | None = None
    options: Mapping[str, OptionValue] = dataclasses.field(default_factory=dict)
    caveat: str | None = None
    state: State = "active"
    reason: str | None = None
    note: str | None = None

    @property
    def active(self) -> bool:
        """True if some JAX platform can meet this row."""
        return self.state == "active"

    def decides(self, direction: Direction) -> bool:
        """Returns whether the row decides computations of ``direction``."""
        return self.direction == direction or (direction == "backward" and self.covers_backward)

    def covers(self, device: str) -> bool:
        """Returns whether the row is about ``device``."""
        return self.device in ("any", device)


@dataclasses.dataclass(frozen=True)
class Primitive(Row):
    """A row about a primitive of JAX, of which other people's programs are made.

    It holds under every profile, so its behaviour is the same under each of them: ``deterministic``
    (the mode takes the order of the row, or, if ``mode_off`` is None, nothing has to be done),
    ``raise``, or None if nothing that the mode does can decide whether runs are equal.

    Attributes:
        primitives: The names of the primitive in a jaxpr; releases of JAX may differ.
        evidence: The reason to believe the row, in a sentence.
        remedy: Advice for a person whose program has such an equation, in a sentence; None if
            nothing has to be done.
    """

    primitives: tuple[str, ...] = ()
    evidence: str | None = None
    remedy: str | None = None


@dataclasses.dataclass(frozen=True)
class Profile:
    """A named version of the contract.

    Attributes:
        name: The name that users write.
        title: One line.
        statement: The promise of the profile, in a sentence or two.
        release: The PyTorch release that it transcribes; empty for our own profile.
        default: Whether it holds if nobody chose a profile.
    """

    name: str
    title: str
    statement: str
    release: str
    default: bool


@dataclasses.dataclass(frozen=True)
class Order:
    """A fixed order of operations. Its oracle in ``spec.oracles`` has the same name.

    Attributes:
        name: The name that rows write.
        title: A few words.
        statement: The rule, in a few sentences.
        order_free_when: Conditions under which every order gives the same bits.
        varies: Why two runs can differ without the order; None if no row says that they can.
    """

    name: str
    title: str
    statement: str
    order_free_when: tuple[Mapping[str, Test], ...] = ()
    varies: str | None = None


@dataclasses.dataclass(frozen=True)
class Fact:
    """A named property of one call, and its English.

    Attributes:
        name: The name that ``when`` and the ops write.
        type: ``bool``, ``int``, ``choice`` or ``string``.
        about: A description.
        values: The values of a ``choice``.
        english: A phrase for each test: ``true``, ``false``, ``is``, ``not``, ``min``, ``max``.
        every_op: Whether every op may state it, also if no row of the op asks for it.
    """

    name: str
    type: Literal["bool", "int", "choice", "string"]
    about: str
    values: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    english: Mapping[str, str]
    every_op: bool = False


@dataclasses.dataclass(frozen=True)
class Device:
    """A kind of hardware, as PyTorch's documents name it.

    Attributes:
        name: The name that rows write.
        english: The name as an adjective, for the English of conditions: ``a CPU`` array.
        platforms: The platforms of JAX that are this device, as a lowering names them.
        backends: The names that ``jax.default_backend()`` has for them.
        untried: For each platform on which nothing has run, a sentence that says so.
        stand_ins: The lowerings by which a CPU runs, in tests, what this device would run; none
            for a CPU.
        races: Whether several threads may write one element there, in an unknown order.
        reason: The reason why rows of the device are out of scope; None if it has platforms.
        like: The device whose rows decide under our own profile; None if rows name this device.
    """

    name: str
    english: str
    platforms: tuple[str, ...]
    backends: tuple[str, ...]
    untried: Mapping[str, str] = dataclasses.field(default_factory=dict, kw_only=True)
    stand_ins: tuple[str, ...]
    races: bool
    reason: str | None = None
    like: str | None = None

    @property
    def tried(self) -> bool:
        """Whether something has run on one of its platforms."""
        return not set(self.platforms) <= set(self.untried)


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that rows cite.

    Attributes:
        name: The name that sources write.
        title: Its title.
        url: Its address, in which ``{release}`` stands for the release. Empty for our own.
    """

    name: str
    title: str
    url: str


@dataclasses.dataclass(frozen=True)
class Data:
    """The spec as data that are published.

    Attributes:
        version: Its version, which follows Semantic Versioning. Equal versions have equal data.
        changed: The time of the last change, in UTC, as ISO 8601.
        licence: Its licence, as SPDX names it.
    """

    version: str
    changed: str
    licence: str


@dataclasses.dataclass(frozen=True)
class Hint:
    """Advice on equations that a library makes.

    Attributes:
        library: The package whose line makes them.
        primitives: The names of their primitives, as in a jaxpr.
        remedy: The advice, in sentences.
    """

    library: str
    primitives: tuple[str, ...]
    remedy: str


@dataclasses.dataclass(frozen=True)
class Portability:
    """A class of ``portable.toml``: what the guarantee ``portable`` does to some primitives of JAX.

    Attributes:
        name: Its name; empty for primitives in no class.
        answer: ``exact`` if they give the same bits everywhere as they are, ``rule`` if they do
            because they are computed in another way, ``refused`` if nothing does.
        reason: The reason of a refusal, as a part of a sentence; None if nothing is refused.
        remedy: Advice on a refusal; None if nothing is refused.
        dtypes: The floats that the answer holds for; None for all of them.
        integers: Whether it is also about equations without floats.
        combines: Whether each float of a result is made of several elements of an operand, so that
            where the guarantee does not hold, its bits may show how devices share the operand.
        primitives: The names of the primitives, as in a jaxpr.
        statement: A sentence on why the bits are the same; None for refusals.
        limits: The greatest sizes that a rule is for, by the names that ``reason`` has in braces.
    """

    name: str
    answer: PortableAnswer
    reason: str | None = None
    remedy: str | None = None
    dtypes: frozenset[str] | None = None
    integers: bool = False
    combines: bool = False
    primitives: tuple[str, ...] = ()
    statement: str | None = None
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def of_complex(self) -> bool:
        """Whether it is about complex numbers; a primitive may be in one more class besides."""
        return any(dtype.startswith("complex") for dtype in self.dtypes or ())


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
        """Returns the advice on an equation of a library; None if no hint is about it.

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
