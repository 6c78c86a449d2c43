"""One record for each primitive of JAX that the guarantee ``portable`` computes in its own way.

A record names the function that computes the primitive, the preparation of its operands, and how a
sum over the devices of a ``shard_map`` passes through it. ``impl._portable.rules`` has the records,
a module for each group of primitives; ``impl._portable.lower`` and ``impl._portable.device_sums``
read them. For example::

    rule("atan2", compute=trigonometric.atan2, is_elementwise=True)
    rule("neg", linear=FIRST, sharding=sharding_rules.each_operand)

The first line is all that this package knows about ``atan2``. The second line serves sums over
devices alone: ``spec/portable.toml`` calls ``neg`` exact, so JAX's own rule lowers it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from impl._core import partitioning
from impl._exact import arithmetic
from impl._portable.device_sums.shardings import Sharding
from impl._soft_float64 import engines

#: A function of arrays that also takes the parameters of an equation as keywords.
Compute: TypeAlias = Callable[..., Any]
#: Positions of operands: a tuple of them, or a slice of all operands.
Positions: TypeAlias = tuple[int, ...] | slice

#: An operation that is linear in its first operand alone.
FIRST = slice(1)
#: An operation that is linear in all of its operands together.
ALL = slice(None)


@dataclasses.dataclass(frozen=True)
class Target:
    """The platforms of an equation, as JAX names them, and whether XLA may partition it."""

    platforms: tuple[str, ...]
    is_partitioned: bool

    @classmethod
    def of(cls, context: Any) -> Target:
        """Returns the devices of the context of a lowering rule."""
        return cls(engines.platforms(context), partitioning.is_partitioned(context))

    @property
    def flushes(self) -> bool:
        """Whether functions have to flush subnormals to zero, which a CPU does by itself."""
        return arithmetic.are_kept_on(self.platforms)


@dataclasses.dataclass(frozen=True)
class Rule:
    """How the guarantee ``portable`` lowers the equations of one primitive.

    A primitive whose class in ``spec/portable.toml`` has the answer ``rule`` has ``compute``,
    ``of_complex`` or ``by_jax``. A primitive whose class is ``exact`` has none of these
    for its floats: JAX lowers it, perhaps after the record has changed operands or parameters.
    The attributes from ``linear`` on are for ``impl._portable.device_sums`` alone.

    Attributes:
        name: The name of the primitive.
        compute: The function of arrays that floats are computed by. It is traced inside
            ``arithmetic.wide()``.
        of_complex: The function for complex numbers.
        by_jax: How JAX lowers the equation if ``compute`` is None. ``original``: by the rule that
            it finds, which ``impl._run_to_run`` has replaced. ``native``: by that rule, with the
            equations that it writes lowered as JAX lowers them. ``written``: by the rule for any
            platform, whose equations have records of their own.
        params: Takes the context of a lowering rule and the parameters of an equation, and returns
            the parameters that it is lowered with.
        takes: The attributes of ``Target`` that ``compute`` and ``over_devices`` take as keywords.
        simpler: Takes the shape of the first operand and the parameters, and returns a record that
            gives the same bits with fewer steps, or None. That record is in no table.
        is_addition: Whether the operation is a sum or a difference of two elements, which on a CPU
            may be JAX's own (``repeated.is_of_run_time``).
        is_elementwise: Whether ``compute`` takes operands of one shape, and computes each element
            alone, in the same way for all shapes but for the choice of a call of C++. The operands
            of the equation may be scalars, or have axes of length 1.
        has_several_results: Whether ``compute`` returns a sequence of arrays.
        names_mesh_axes: Whether a parameter names axes of a mesh, so that ``compute`` needs the
            mesh. All other functions are traced without one.
        keeps_whole: Takes the context of a lowering rule, the parameters of an equation, and the
            type of an operand or of a result. It returns the axes that XLA must not partition: a
            function of ``shared``.
        guards: Takes the operands and parameters of an equation, and the keyword
            ``is_partitioned`` of ``Target``. It returns the operands in a form in which XLA does
            not merge the equation with another one (``OPERATIONS_ARE_MERGED``).
        moves: The function that moves floats which several devices may share, as integers with the
            same bits; it takes a keyword ``devices``, their number.
        moves_integers: Whether ``moves`` is for integers too, which XLA's partitioner changes.
        linear: The operands that the operation is linear in, together: a sum over devices passes to
            them. ``either`` stands for a product, which is linear in one operand if all devices
            have the other. ``each`` stands for an operation that returns all of its operands in
            their order.
        over_devices: ``compute`` for operands of which the devices of a ``shard_map`` hold parts,
            as the additional keywords say. Only an operation that adds elements has it: a sum over
            devices ends there.
        sharding: Takes an equation in a ``shard_map`` and the shardings of its operands, and
            returns the shardings of its results: a function of ``device_sums.sharding_rules``. None
            stands for an unknown operation.
    """

    name: str
    compute: Compute | None = None
    of_complex: Compute | None = None
    by_jax: Literal["native", "original", "written"] | None = None
    params: Callable[[Any, Mapping[str, Any]], dict[str, Any]] | None = None
    takes: frozenset[str] = frozenset()
    simpler: Callable[[Sequence[Any], Mapping[str, Any]], Rule | None] | None = None
    is_addition: bool = False
    is_elementwise: bool = False
    has_several_results: bool = False
    names_mesh_axes: bool = False
    keeps_whole: Callable[[Any, Mapping[str, Any], Any], Sequence[int]] | None = None
    guards: Compute | None = None
    moves: Compute | None = None
    moves_integers: bool = False
    linear: Positions | Literal["each", "either"] = ()
    over_devices: Compute | None = None
    sharding: Callable[[Any, Sequence[Sharding]], list[Sharding]] | None = None

    @property
    def lowers(self) -> bool:
        """Whether the record changes how equations are lowered."""
        functions = (self.compute, self.of_complex, self.by_jax, self.params, self.moves)
        return any(each is not None for each in (*functions, self.guards, self.keeps_whole))

    @property
    def is_inlined(self) -> bool:
        """Whether the equations of ``compute`` stand in the program, also on a CPU.

        A function that flushes subnormals itself is a handful of equations, which XLA may fuse.
        """
        return "flushes" in self.takes

    def keywords(self, target: Target) -> dict[str, Any]:
        """Returns the keywords of ``compute`` and ``over_devices`` for a target."""
        return {name: getattr(target, name) for name in sorted(self.takes)}


#: The record of each primitive, by its name. ``impl._portable.rules`` fills it.
RULES: dict[str, Rule] = {}


def rule(name: str, **fields: Any) -> None:
    """Registers the record of a primitive, once."""
    if name in RULES:
        raise ValueError(f"rule: the primitive {name!r} has a record already")
    RULES[name] = Rule(name, **fields)


def rule_of(equation: Any) -> Rule:
    """Returns the record of the primitive of an equation; an empty one if it has none."""
    name = str(equation.primitive.name)
    return RULES.get(name) or Rule(name)
