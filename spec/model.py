"""The records of the spec: what a row, a profile, an order and a fact are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

Behaviour: TypeAlias = Literal["deterministic", "raise", "fill"]
Device: TypeAlias = Literal["any", "cpu", "cuda", "mps"]
Direction: TypeAlias = Literal["forward", "backward"]
Guarantee: TypeAlias = Literal["not_guaranteed", "run_to_run", "portable"]
Kind: TypeAlias = Literal["op", "random", "loader", "backend", "compiler", "note"]
State: TypeAlias = Literal["active", "out_of_scope"]

#: The devices that a JAX platform can be; rows of others are out of scope.
DEVICES: tuple[Device, ...] = ("cpu", "cuda")
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
KINDS: tuple[Kind, ...] = get_args(Kind)

#: A value of a fact, as an op states it about one call.
FactValue: TypeAlias = bool | int | str
#: A value of an option of XLA.
OptionValue: TypeAlias = bool | int | str
#: What a ``when`` asks of one fact: a value, a list of values (any of them), or a table of
#: ``not`` (none of these values), ``min`` and ``max``.
Test: TypeAlias = FactValue | tuple[FactValue, ...] | Mapping[str, Any]
Facts: TypeAlias = Mapping[str, FactValue]


class SpecError(Exception):
    """The spec, or a question put to it, is malformed."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a row comes from.

    Attributes:
        document: Key of ``documents.toml``.
        releases: The releases of that document in which it stands.
        phrase: A few words to find the place by.
    """

    document: str
    releases: tuple[str, ...]
    phrase: str


@dataclasses.dataclass(frozen=True)
class Erratum:
    """What PyTorch's code does where its documents say something else.

    Attributes:
        statement: One sentence for the reader.
        since: First PyTorch release in which the code did this.
        behaviour: What the code does, or None where the mode changes nothing.
        when: The calls to which it does so; empty means all that the row covers.
        unaffected_elsewhere: Whether the mode changes nothing of the row's other calls, whatever
            the documents list.
    """

    statement: str
    since: str
    behaviour: Behaviour | None
    when: Mapping[str, Test]
    unaffected_elsewhere: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """One entry of the spec.

    A row of kind ``op`` says what the mode does to calls of a function. The other kinds hold what
    else a reproducible program needs: ``random`` and ``loader`` rows promise something whatever
    the mode is; ``backend`` and ``compiler`` rows name the options of XLA that hold where ``when``
    does, which there speaks of the mode and the switches and not of a call.

    Attributes:
        id: Opaque, permanent, never reused.
        op: Dotted name of the function under ``impl``; of a ``compiler`` row, of what XLA does.
        torch: The name by which PyTorch's documents list it.
        device: The device it speaks of.
        direction: The forward computation, or differentiation.
        when: Facts about a call that must hold for the row to apply; empty means always.
        condition: ``when``, device and direction in English (rendered, never written).
        behaviour: Behaviour per profile; None where the profile does not list the row.
        sources: At least one.
        guarantee: What the ordered path promises; None where no profile is deterministic.
        order: Name of the order of the ordered path, if it has one.
        mode_off: ``not_guaranteed`` where the atomic path, which the mode keeps from being taken,
            gives other bits from run to run on some calls; None where it gives the same ones.
        covers_backward: Whether a row of the forward direction also decides the op's backward
            direction, which makes the same computation.
        switch: Name of the fact that selects the ordered path as the mode does, if one can.
        caller: The name that an alert gives, where some profile raises.
        erratum: Where the documents and PyTorch's code differ.
        kind: As above, or ``note`` for what the documents say of no single op.
        statement: What a row of another kind than ``op`` promises, in a sentence.
        in_xla: What XLA has in the place of what a ``compiler`` row speaks of.
        options: The options of XLA that a ``backend`` or ``compiler`` row sets, by name.
        caveat: What can still differ where a row other than an ``op`` is kept.
        state: ``active``, or ``out_of_scope`` with a reason.
        reason: Why the row is out of scope.
        note: What else a reader has to know, in a sentence or two.
    """

    id: str
    op: str
    torch: str
    device: Device
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
    caller: str | None = None
    erratum: Erratum | None = None
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
        """Whether a JAX platform can meet this row."""
        return self.state == "active"

    def decides(self, direction: Direction) -> bool:
        """Whether the row decides computations of ``direction``."""
        return self.direction == direction or (direction == "backward" and self.covers_backward)

    def covers(self, device: str) -> bool:
        """Whether the row speaks of ``device``."""
        return self.device in ("any", device)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A named version of the contract.

    Attributes:
        name: As users write it.
        title: One line.
        statement: What it promises, in a sentence or two.
        release: The PyTorch release it transcribes; empty for our own.
        default: Whether it holds when nobody chose.
    """

    name: str
    title: str
    statement: str
    release: str
    default: bool


@dataclasses.dataclass(frozen=True)
class Order:
    """A fixed order of operations; the oracle of the same name is in ``spec.oracles``.

    Attributes:
        name: As rows name it.
        title: One or two words.
        statement: The order in one sentence.
        parameters: The numbers in that sentence, by name.
        order_free_when: Conditions under which every order gives the same bits.
    """

    name: str
    title: str
    statement: str
    parameters: Mapping[str, int]
    order_free_when: tuple[Mapping[str, Test], ...]


@dataclasses.dataclass(frozen=True)
class Fact:
    """A named property of one call, and its English.

    Attributes:
        name: As ``when`` and the ops write it.
        type: ``bool``, ``int``, ``choice`` or ``string``.
        about: What it is.
        values: The values of a ``choice``.
        english: Phrases by test: ``true``, ``false``, ``is``, ``not``, ``min``, ``max``.
    """

    name: str
    type: Literal["bool", "int", "choice", "string"]
    about: str
    values: tuple[str, ...]
    english: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Document:
    """A document that rows cite.

    Attributes:
        name: As sources write it.
        title: Its title.
        url: Where it is; ``{release}`` stands for the release. Empty for our own.
    """

    name: str
    title: str
    url: str


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything that the files under ``spec/`` say, read and frozen."""

    rows: tuple[Row, ...]
    profiles: Mapping[str, Profile]
    orders: Mapping[str, Order]
    facts: Mapping[str, Fact]
    documents: Mapping[str, Document]

    @property
    def default_profile(self) -> str:
        """The profile that holds when nobody chose one."""
        return next(p.name for p in self.profiles.values() if p.default)

    def row(self, id: str) -> Row:
        """The row with this id.

        Raises:
            KeyError: No row has it.
        """
        for row in self.rows:
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
        """Rows that match every argument given, in the order of the files.

        ``behaviour`` is looked up under ``profile``; with a profile alone, the rows it lists.
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
