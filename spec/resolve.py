"""Resolves a call: which row decides it under a profile, and what the mode then does.

Everything that shows or tests the effect of the mode on an op asks here, and so does ``impl``, so
that the library, the suite and the site cannot disagree. Some answers about ``cumsum`` with the
direction ``forward`` and the fact ``dtype``:

======  =========  ==============  =========  =====  =============================================
device  dtype      profile         effect     row    reason
======  =========  ==============  =========  =====  =============================================
cuda    floating   ``torch-2.12``  raises     R0059  the profile lists it as raising
cuda    floating   ``complete``    ordered    R0060  the profile lists every op as deterministic
cuda    integer    ``torch-2.12``  same       R0060  the profile does not list it; no order shows
cpu     floating   ``torch-2.12``  same       R0060  the profile does not list it; a CPU repeats
======  =========  ==============  =========  =====  =============================================

``portability`` answers what the guarantee ``portable`` does to an equation.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable

from spec import loader
from spec.conditions import deciding_row, distinct_calls, holds, precedence, specificity
from spec.model import (
    LISTED,
    Behaviour,
    Direction,
    Effect,
    Facts,
    Guarantee,
    Portability,
    PortableAnswer,
    Primitive,
    Row,
    Spec,
    SpecError,
)

#: The dtypes whose operations round: floats and complex numbers, of any number of bits.
_INEXACT = re.compile(r"b?float|complex")


@dataclasses.dataclass(frozen=True)
class Answer:
    """The effect of the mode on one call under a profile.

    Attributes:
        effect: The effect on the call. ``spec.english.EFFECTS`` has the words for people.
        row: The row that decides; None if no row does.
        behaviour: The behaviour that the row states, under the profile that lists it.
        listed: Whether the documents of the profile itself list the call. Otherwise the row is one
            of this project's own profile.
    """

    effect: Effect
    row: Row | None = None
    behaviour: Behaviour | None = None
    listed: bool = False

    @property
    def remedy(self) -> str | None:
        """Advice for the person whose program has the equation; None for calls of our ops."""
        return self.row.remedy if isinstance(self.row, Primitive) else None

    @property
    def key(self) -> tuple[Effect, str | None]:
        """The effect and the id of the row, which tell the answers about one op apart."""
        return self.effect, self.row.id if self.row else None

    @property
    def guarantee(self) -> Guarantee | None:
        """The promise of the ordered path; None if the call does not take it."""
        return self.row.guarantee if self.row and self.behaviour == "deterministic" else None

    @property
    def order(self) -> str | None:
        """The name of the order of the ordered path; None if it has none or is not taken."""
        return self.row.order if self.row and self.behaviour == "deterministic" else None


def precedence_of(answer: Answer) -> tuple[bool, tuple[int, bool]]:
    """Returns the precedence among answers about one op: what a profile lists decides first."""
    return answer.listed, specificity(answer.row) if answer.row else (-1, False)


def resolve(
    op: str,
    direction: Direction,
    device: str,
    facts: Facts,
    profile: str,
    rules: Spec | None = None,
) -> Answer:
    """Returns what a call does with the mode on.

    A profile decides which calls are refused. A call that it does not list falls back to this
    project's own profile, which states a deterministic path for it. Rows about primitives of JAX
    hold under every profile.

    Args:
        op: Dotted name of the op, or of the primitive.
        direction: The call, or its gradient.
        device: Name of a device, or ``any`` for one that the spec does not name.
        facts: The facts of the call.
        profile: The profile that holds.
        rules: The rows; None for the rows of this distribution.

    Raises:
        SpecError: A row asks for a fact that is not stated.
    """
    rules = loader.load() if rules is None else rules
    if op in rules.op_of_primitive.values():
        return _of_primitive(op, device, facts, rules)
    decider = rules.decider(device, profile)
    row = deciding_row(rules.rows, op, direction, decider, facts, profile)
    behaviour = row.behaviour[profile] if row else None
    if row and behaviour:
        return Answer(LISTED[behaviour], row, behaviour, listed=True)
    own = rules.own_profile
    decider = rules.decider(device, own) if own else device
    row = deciding_row(rules.rows, op, direction, decider, facts, own) if own else None
    behaviour = row.behaviour[own] if row and own else None
    if not row or not behaviour:
        return Answer(_without_row(rules, op, direction, decider))
    if behaviour == "deterministic":
        return Answer("ordered_unlisted" if varies(row, device, rules) else "same", row, behaviour)
    return Answer(LISTED[behaviour], row, behaviour)


def resolve_primitive(
    primitive: str, device: str, facts: Facts, rules: Spec | None = None
) -> Answer:
    """Returns what the mode does to an equation of a jaxpr; it is the same under every profile.

    A row that names the device decides before rows for any device: it is the cheapest path there
    whose bits repeat. Ask about ``any`` for a path that gives the same bits on every device.

    Args:
        primitive: The name of its primitive in the jaxpr: ``scatter-add``.
        device: Name of a device, or ``any`` for one that the spec does not name.
        facts: The facts of the equation.
        rules: The rows; None for the rows of this distribution.

    Raises:
        SpecError: A row asks for a fact that is not stated.
    """
    rules = loader.load() if rules is None else rules
    return _of_primitive(rules.op_of_primitive.get(primitive, ""), device, facts, rules)


def _of_primitive(op: str, device: str, facts: Facts, rules: Spec) -> Answer:
    matching = [
        row
        for row in rules.primitives
        if row.op == op and row.active and row.covers(device) and holds(row.when, facts)
    ]
    row = max(matching, key=precedence, default=None)
    if row is None:
        return Answer("unknown")
    behaviour = row.behaviour[rules.default_profile]
    listed = behaviour is not None
    return Answer(effect_of_primitive(row, device, rules), row, behaviour, listed=listed)


def effect_of_primitive(row: Primitive, device: str, rules: Spec | None = None) -> Effect:
    """Returns what the mode does to the equations that a row decides.

    Args:
        row: The row.
        device: Name of a device, or ``any`` for one that the spec does not name.
        rules: The rows; None for the rows of this distribution.
    """
    rules = loader.load() if rules is None else rules
    behaviour = row.behaviour[rules.default_profile]
    if behaviour is None:
        return "unknown"
    if behaviour == "raise":
        return "raises"
    return "ordered" if varies(row, device, rules) else "same"


def varies(row: Row, device: str, rules: Spec) -> bool:
    """Returns whether calls of a row can give other bits from run to run with the mode off."""
    known = rules.devices.get(device)
    return row.mode_off is not None and (known is None or known.races)


def _without_row(rules: Spec, op: str, direction: Direction, device: str) -> Effect:
    """Returns the effect on a call that no row of any profile is about.

    The rows of an op are about all of its calls that can vary (``spec.check`` and the suite test
    this), so other calls give the same bits anyway. Fresh memory that is not filled is the
    exception.
    """
    rows = [row for row in rules.rows if row.op == op and row.active and row.covers(device)]
    fills = any("fill" in row.behaviour.values() for row in rows if row.decides(direction))
    return "same" if rows and not fills else "unknown"


def check_question(
    op: str, direction: Direction, names: Collection[str], rules: Spec | None = None
) -> None:
    """Raises if a question about an op is one that no row can answer.

    Args:
        op: The name of the op.
        direction: The direction.
        names: The names of the facts that are stated.
        rules: The rows; None for the rows of this distribution.

    Raises:
        SpecError: No active row is about the op or the direction, or none asks for a fact.
    """
    rules = loader.load() if rules is None else rules
    rows = rules.select(op=op, kind="op")
    if not any(row.active for row in rows):
        raise SpecError(unknown_op(op, rules))
    if not any(row.active and row.decides(direction) for row in rows):
        directions = sorted({row.direction for row in rows if row.active})
        raise SpecError(f"no row is about {op} ({direction}); the rows are about {directions}")
    known = known_facts(rows, rules)
    unknown = sorted(set(names) - known)
    if unknown:
        raise SpecError(f"unknown fact(s) {unknown} of {op}; its rows ask for {sorted(known)}")


def known_facts(rows: Iterable[Row], rules: Spec) -> set[str]:
    """Returns the facts that rows of an op ask for, and those that every op states."""
    names = {fact.name for fact in rules.facts.values() if fact.every_op}
    for row in rows:
        names |= set(row.when)
        names |= {name for erratum in row.errata for name in erratum.when}
        for order in {row.order} & set(rules.orders):
            names |= {name for when in rules.orders[str(order)].order_free_when for name in when}
    return names


def unknown_op(op: str, rules: Spec) -> str:
    """Returns the message about an op that has no row, with the names that are close to it."""
    ops = sorted({row.op for row in rules.select(kind="op", active=True)})
    close = difflib.get_close_matches(op, ops, n=5) or [
        known for known in ops if op.rpartition(".")[2] in known.split(".")
    ]
    hint = f"close to it: {', '.join(close)}" if close else "python -m spec export lists the ops"
    return f"no row is about the op {op!r}; {hint}"


@dataclasses.dataclass(frozen=True)
class Case:
    """The calls of an op that get one answer.

    Attributes:
        answer: The answer.
        calls: The facts of calls that the rows tell apart.
    """

    answer: Answer
    calls: tuple[Facts, ...]


def cases(
    op: str, direction: Direction, device: str, profile: str, rules: Spec | None = None
) -> tuple[Case, ...]:
    """Returns every answer that a call of an op can get under a profile.

    Args:
        op: Dotted name of the op.
        direction: The call, or its gradient.
        device: Name of a device.
        profile: The profile that holds.
        rules: The rows; None for the rows of this distribution.
    """
    rules = loader.load() if rules is None else rules
    rows = [r for r in rules.select(op=op, kind="op", active=True) if r.decides(direction)]
    found: dict[tuple[Effect, str | None], tuple[Answer, list[Facts]]] = {}
    for facts in distinct_calls(rows, rules.facts):
        answer = resolve(op, direction, device, facts, profile, rules)
        found.setdefault(answer.key, (answer, []))[1].append(facts)
    return tuple(Case(answer, tuple(calls)) for answer, calls in found.values())


def answers_of(row: Row, profile: str, rules: Spec | None = None) -> tuple[Answer, ...]:
    """Returns the answers that the calls of a row get under a profile, each once.

    Args:
        row: An active row of the kind ``op``.
        profile: The profile that holds.
        rules: The rows; None for the rows of this distribution.
    """
    rules = loader.load() if rules is None else rules
    answers: dict[tuple[Effect, str | None], Answer] = {}
    for device in rules.devices.values():
        if not device.platforms or not row.covers(device.name):
            continue
        for case in cases(row.op, row.direction, device.name, profile, rules):
            if any(holds(row.when, facts) for facts in case.calls):
                answers[case.answer.key] = case.answer
    return tuple(answers.values())


def unlisted(row: Row, profile: str, rules: Spec | None = None) -> Effect | None:
    """Returns the effect on calls that a row decides although the profile does not list them.

    A row for any device can leave some calls as they are and order others; it then counts as one
    that orders. None if the row decides no such call.
    """
    own = [a for a in answers_of(row, profile, rules) if a.row and a.row.id == row.id]
    effects: list[Effect] = [answer.effect for answer in own if not answer.listed]
    return "ordered_unlisted" if "ordered_unlisted" in effects else next(iter(effects), None)


def portability(
    primitive: str, dtypes: Collection[str], rules: Spec | None = None
) -> Portability | None:
    """Returns the class that decides about an equation under the guarantee ``portable``.

    Args:
        primitive: The name of its primitive, as in a jaxpr.
        dtypes: The names of the dtypes of its operands and results.
        rules: The spec; None for the spec of this distribution.

    Returns:
        The class. None if the equation has no floats and no class is about it without: it then
        gives the same bits on every device.
    """
    rules = loader.load() if rules is None else rules
    found = rules.class_of_primitive.get(primitive, rules.unlisted)
    if any(dtype.startswith("complex") for dtype in dtypes):
        found = rules.class_of_complex.get(primitive, found)
    inexact = {dtype for dtype in dtypes if _INEXACT.match(dtype)}
    if not inexact:
        return found if found.integers else None
    if found.dtypes is not None and not inexact <= found.dtypes:
        others = ", ".join(sorted(inexact - found.dtypes))
        reason = str(rules.other_dtypes.reason).format(dtypes=others)
        return dataclasses.replace(rules.other_dtypes, reason=reason, combines=found.combines)
    return found


def portable_answer(row: Row) -> PortableAnswer | None:
    """Returns what the guarantee ``portable`` does to the calls of a row about a function.

    Args:
        row: A row of the kind ``op``.

    Returns:
        ``exact`` if the path of the row gives the same bits on every device. ``rule`` if the call
        takes another path, of JAX's primitives, to which their own classes apply: they compute it,
        or refuse its dtype. None if the row is not about a path.
    """
    if row.kind != "op" or not row.active:
        return None
    if row.guarantee is None:
        return "exact" if "fill" in row.behaviour.values() else None
    return "exact" if row.guarantee == "portable" else "rule"


def portable_classes(row: Primitive, rules: Spec | None = None) -> tuple[Portability, ...]:
    """Returns the classes of the primitives that a row is about, each once.

    Names that only a release of JAX has that nobody supports any more are in no class. If no name
    is in one, the answer is that for unlisted primitives.

    Args:
        row: A row about a primitive.
        rules: The spec; None for the spec of this distribution.
    """
    rules = loader.load() if rules is None else rules
    found = (rules.class_of_primitive.get(name) for name in row.primitives)
    classes = {each.name: each for each in found if each is not None}
    return tuple(classes.values()) or (rules.unlisted,)
