"""A jaxpr while it is rewritten: its new equations, and how devices hold each value.

``push`` reads the equations of the old jaxpr in order and appends them to a ``Draft``, some of
them changed. A draft knows which equation computes a value, and the sharding of the value. A loop,
a condition or a checkpoint becomes a ``NestDraft``: drafts of its bodies, which may still get more
inputs and outputs, because a later sum can move into them. For example:

================ ================================== ==============================================
old equation     appended to the draft              then
================ ================================== ==============================================
c = reduce_sum a c = reduce_sum a                   ``producers[c]`` is this equation.
d = div c 3.0    d = div c 3.0                      The sharding of d is a term of a sum.
e = psum d       f = samebits_whole[reduce_sum] a,  g stands for e in later equations, and
                 g = div f 3.0                      ``sums[d, axes]`` is g.
in (e,)          in (g,)                            ``finished`` drops the equations of c and d.
================ ================================== ==============================================

The primitives that it writes stand here too. A user never calls them: they appear after JAX
has differentiated and batched a program, so they have rules of lowering alone (``push``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from impl import _jax
from impl._jax import Primitive, jaxprs, tags
from impl._mode.modes import Mode
from impl._portable.device_sums.flow import Atom, Flow, sharding_of
from impl._portable.device_sums.shardings import Sharding
from impl._reading import control_flow
from impl._reading.control_flow import Body, inlined


@dataclasses.dataclass(frozen=True)
class DeviceSum:
    """A sum over devices that moves.

    New equations have the parameters, effects and lines of source of ``like``, a ``psum``.
    """

    axes: Names
    like: Any

    def along(self, axes: Names) -> DeviceSum:
        """Returns the sum over other mesh axes."""
        return dataclasses.replace(self, axes=axes)


class Summed(NamedTuple):
    """The sum of a value over devices.

    Attributes:
        atom: The variable or literal that holds the sum.
        is_joined: Whether the sum over devices was joined with the devices' own sums.
        is_carried: Whether it is computed from the sum of a value that a scan carries, which may
            still be joined before the scan or in an iteration.
    """

    atom: Atom
    is_joined: bool
    is_carried: bool = False

    @staticmethod
    def of(atom: Atom, parts: Iterable[Summed]) -> Summed:
        """Returns a sum that is computed from other ones."""
        joined, carried = zip(*((each.is_joined, each.is_carried) for each in parts), strict=True)
        return Summed(atom, any(joined), any(carried))

    @property
    def has_moved(self) -> bool:
        """Whether the operation that follows may get this sum, and not a ``psum`` of its own."""
        return self.is_joined or self.is_carried


class Draft:
    """A jaxpr while it is rewritten.

    Args:
        jaxpr: The old jaxpr, without constants.
        inputs: The sharding of each of its inputs.
        flow: Follows the shardings.
        mode: The mode of equations without one of their own.

    Attributes:
        source: The old jaxpr, with the equations of calls written out.
        flow: Follows the shardings.
        inputs: The inputs of the new jaxpr.
        outputs: The outputs of the new jaxpr.
        producers: The equation, or the nest, that computes each variable of the new jaxpr.
        sums: The sums over devices that were asked for: of which value, over which mesh axes.
        nest: The loop, condition or checkpoint of which the jaxpr is a body, if any.
        around: The draft that has the nest.
        carries: While sums move into a scan: the inputs that will carry sums, with the sums, by the
            number of the carried value and the mesh axes. Otherwise None.
    """

    def __init__(self, jaxpr: Any, inputs: Sequence[Sharding], flow: Flow, mode: Mode) -> None:
        self.flow = flow
        self._mode = mode
        self.source = reordered(
            inlined(jaxpr), self.is_joinable, lambda each: self.mode_of(each).portable
        )
        self.inputs: list[Any] = list(self.source.invars)
        self.outputs: list[Atom] = list(self.source.outvars)
        self.producers: dict[Atom, Any] = {}
        self.sums: dict[tuple[Atom, Names], Summed] = {}
        self.nest: NestDraft | None = None
        self.around: Draft | None = None
        self.carries: dict[tuple[int, Names], tuple[Atom, DeviceSum]] | None = None
        self._shardings = flow.shardings(self.source, inputs)
        self._items: list[Any] = []
        self._replacements: dict[Atom, Atom] = {}

    def finished(self) -> Any:
        """Returns the new jaxpr as it is now, without equations that no output needs."""
        equations = [
            item.finished() if isinstance(item, NestDraft) else item for item in self._items
        ]
        new = self.source.replace(
            invars=list(self.inputs),
            eqns=jaxprs.sorted_equations(equations),
            outvars=list(self.outputs),
        )
        return _jax.without_dead_code(new)

    def sharding(self, atom: Atom) -> Sharding:
        """Returns how devices hold a value."""
        return sharding_of(self._shardings, atom)

    def is_replicated(self, atom: Atom, axes: Names) -> bool:
        """Returns whether devices along mesh axes have the same value."""
        return not set(self.sharding(atom)) & set(axes)

    def mode_of(self, equation: Any) -> Mode:
        """Returns the mode of the scope of an equation, or else the mode of the whole program."""
        own: Mode | None = tags.of(equation)
        return own or self._mode

    def is_joinable(self, psum: Any) -> bool:
        """Returns whether a ``psum`` adds floats over axes of the mesh, in a portable scope."""
        axes = psum.params["axes"]
        are_of_mesh = all(isinstance(axis, str) and axis in self.flow.sizes for axis in axes)
        has_groups = psum.params.get("axis_index_groups") is not None
        is_float = jnp.issubdtype(psum.invars[0].aval.dtype, jnp.floating)
        return are_of_mesh and not has_groups and is_float and self.mode_of(psum).portable

    def replacement(self, atom: Atom) -> Atom:
        """Returns the replacement of a variable of the old jaxpr in the new one."""
        return atom if jaxprs.is_literal(atom) else self._replacements.get(atom, atom)

    def replace(self, old: Atom, new: Atom) -> None:
        """Lets later equations, and the outputs, read another variable."""
        self._replacements[old] = new

    def summed_variable(self, like: Atom, axes: Names) -> Atom:
        """Returns a new variable for the sum of a value over mesh axes."""
        new = jaxprs.variable(jaxprs.invariant(like.aval, axes))
        self._shardings[new] = {a: d for a, d in self.sharding(like).items() if a not in axes}
        return new

    def sum_to_carry(self, number: int, over: DeviceSum) -> Atom | None:
        """Returns the input of the body of a scan for the sum of a value that the scan carries.

        It is None while no sum moves into the scan.
        """
        if self.nest is None or self.carries is None:
            return None
        key = number, over.axes
        if key not in self.carries:
            carried = self.inputs[self.nest.constants + number]
            self.carries[key] = self.summed_variable(carried, over.axes), over
        return self.carries[key][0]

    def append(self, item: Any) -> None:
        """Appends an equation or a nest."""
        outputs = item.equation.outvars if isinstance(item, NestDraft) else item.outvars
        self._items.append(item)
        self.producers.update(dict.fromkeys(outputs, item))

    def append_psum(self, atom: Atom, over: DeviceSum) -> Atom:
        """Appends a ``psum`` of a value, which is joined with nothing, and returns its output."""
        out = self.summed_variable(atom, over.axes)
        params = {**over.like.params, "axes": over.axes}
        self.append(over.like.replace(params=params, invars=[atom], outvars=[out]))
        return out

    def typed_replicated(self, atom: Atom, over: DeviceSum) -> Atom:
        """Returns a replicated value in a type that does not vary over the axes of a sum.

        With ``check_vma``, JAX's types tell over which mesh axes a value varies, and all operands
        of an equation have to agree. ``pvary`` may have given a replicated value a varying type.
        """
        if jaxprs.is_literal(atom) or not jaxprs.varying(atom.aval) & set(over.axes):
            return atom
        out = self.summed_variable(atom, over.axes)
        like = over.like.replace(primitive=same_p, params={}, effects=frozenset())
        self.append(like.replace(invars=[atom], outvars=[out]))
        return out


@dataclasses.dataclass
class NestDraft:
    """An equation with bodies that are rewritten, with operands and outputs as they are now.

    ``constants`` and ``carried`` are how many a scan has now.
    """

    equation: Any
    bodies: Sequence[Body]
    drafts: Sequence[Draft]
    constants: int
    carried: int

    @staticmethod
    def of(
        equation: Any, bodies: Sequence[Body], drafts: Sequence[Draft], around: Draft
    ) -> NestDraft:
        """Returns the draft of an equation of the draft ``around``, with drafts of its bodies."""
        carried = len(bodies[-1].carries)
        constants = len(bodies[-1].operands)
        nest = NestDraft(equation, bodies, drafts, constants, carried)
        for each in drafts:
            each.nest, each.around = nest, around
        return nest

    def finished(self) -> Any:
        """Returns the equation with the bodies as they are now."""
        new = [draft.finished() for draft in self.drafts]
        counts = self.constants, self.carried
        return control_flow.with_bodies(self.equation, new, counts=counts)

    @property
    def is_scan(self) -> bool:
        """Whether the equation is a scan: a ``while`` has a test, too."""
        return self.bodies[0].runs == "loop" and len(self.bodies) == 1

    def add_operand(self, position: int, atom: Atom) -> None:
        """Adds an operand of the equation; the caller adds an input to a draft."""
        operands = list(self.equation.invars)
        operands.insert(position, atom)
        self.equation = self.equation.replace(invars=operands)

    def add_output(self, position: int, variable: Atom) -> None:
        """Adds an output of the equation; the caller adds an output to the drafts."""
        outputs = list(self.equation.outvars)
        outputs.insert(position, variable)
        self.equation = self.equation.replace(outvars=outputs)


#: The names of mesh axes.
Names: TypeAlias = tuple[str, ...]

#: A joined sum: an operation on the operands of all devices along some axes, as if one device had
#: all of them. Its parameters are the name of the operation, its parameters, the mesh axes, and the
#: type of the result, since ``carried_sums`` computes it once more.
whole_p = Primitive("samebits_whole")
whole_p.def_abstract_eval(lambda *_, result, **__: result)
#: A replicated value, in a type that says so. It computes nothing.
same_p = Primitive("samebits_same")
same_p.def_abstract_eval(lambda value: value)  # As of ``whole_p``.
#: The slice that ``reduce_scatter`` gives a device, of a sum that is replicated.
part_p = Primitive("samebits_part")


def as_whole(equation: Any, like: Any, axes: Names) -> Any:
    """Returns the joined sum that stands for an operation on the operands of one device.

    Args:
        equation: The operation, whose record has ``over_devices``.
        like: An equation with the effects of the result.
        axes: The mesh axes over which the elements that it adds are sharded.
    """
    aval = equation.outvars[0].aval
    params = {
        "name": str(equation.primitive.name),
        "params": tuple(equation.params.items()),
        "axis_names": axes,
        "result": jax.core.ShapedArray(aval.shape, aval.dtype),
    }
    return equation.replace(primitive=whole_p, params=params, effects=like.effects)


def over_more_devices(whole: Any, axes: Sequence[str], out: Any) -> Any:
    """Returns a joined sum over further mesh axes."""
    params = {**whole.params, "axis_names": (*whole.params["axis_names"], *axes)}
    return whole.replace(params=params, outvars=[out])


#: The primitives of sums over devices.
PSUMS = frozenset({"psum", "psum_invariant"})


def reordered(
    jaxpr: Any, is_joinable: Callable[[Any], bool], is_portable: Callable[[Any], bool]
) -> Any:
    """Returns a body whose sums of elements come before sums over devices.

    The derivative of a bias that ``jnp.broadcast_to`` repeats before it varies over devices begins
    with a ``psum``. Its sums are of one row of each device, and each would be rounded by itself::

        b = psum a; c = reduce_sum b        becomes        d = reduce_sum a; c = psum d

    The old ``psum`` stays for other equations, or is removed with the dead code.

    Args:
        jaxpr: The body, with the equations of calls written out.
        is_joinable: Returns whether a ``psum`` may be joined with a sum.
        is_portable: Returns whether an equation is in a portable scope.
    """
    psums: dict[Any, Any] = {}
    equations: list[Any] = []
    for equation in jaxpr.eqns:
        name = str(equation.primitive.name)
        operand = equation.invars[0] if equation.invars else None
        if name in PSUMS and is_joinable(equation):
            psums[equation.outvars[0]] = equation
        psum = None if jaxprs.is_literal(operand) else psums.get(operand)
        if name != "reduce_sum" or psum is None or not is_portable(equation):
            equations.append(equation)
            continue
        (local,), (result,) = psum.invars, equation.outvars
        own = jaxprs.variable(jaxprs.varying_as(result.aval, local.aval))
        equations.append(equation.replace(invars=[local], outvars=[own]))
        swapped = psum.replace(invars=[own], outvars=[result])
        equations.append(swapped)
        psums[result] = swapped
    return jaxpr.replace(eqns=equations)
