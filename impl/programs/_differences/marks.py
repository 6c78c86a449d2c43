"""Plans the marks of a JAX program: which equations get a digest of their outputs, and where.

A ``Node`` stands for one equation and holds the nodes of its bodies. The words of all digests are
one flat array: first the words of the inner nodes, then the equation's own. Two programs with equal
nodes can therefore be compared word by word, and the index of a word names the equation. The marks
"arithmetic" of a program with a loop of 10 iterations::

    b:f32[4] = sin a                       word 0
    c:f32[4] d:f32[10] = scan[...] b       words 1 to 30: 10 rows of 3 words
        f:f32[4] = cos e                       words 1, 4, 7, ...
        g:f32[4] = add f 1.0                   words 2, 5, 8, ...
        h:f32[] = reduce_sum e                 words 3, 6, 9, ...
    i:f32[] = reduce_sum d                 word 31

If word 15 is the first that differs, it is the ``reduce_sum`` of iteration 4.

The digests of a loop take memory for each iteration, so a long loop gets at most ``_WORDS`` words.
For example a scan of 1,000,000 iterations, whose body has 8 outputs, gets 262,144 rows of 8 words,
with 4 iterations in each row (``steps``). If a row differs, the program runs again with rows that
start at this iteration (``start``) and have one iteration each.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax import lax

import spec
from impl._core.jax_internals import jaxprs
from impl._reading import control_flow, source
from impl._reading.control_flow import Body
from impl._reading.walk import label
from impl.programs._auditing import notes

Marks: TypeAlias = Literal["arithmetic", "equations", "calls"]
Kind: TypeAlias = Literal["equation", "argument", "constant", "output"]

#: The greatest number of words of digests of one loop. A longer loop has several iterations in each
#: row.
_WORDS = 2**21
#: The number of rows of a ``while``, whose number of iterations is not known before it runs.
_ROWS_OF_WHILE = 1024
#: The number of words of one digest: two different values have the same digest once in 4 billion.
WIDTH = 1


@dataclasses.dataclass(frozen=True)
class Mark:
    """Values that are digested together: outputs of an equation, or values of the whole program.

    Attributes:
        kind: Whether the values are outputs of an equation, arguments, constants or outputs.
        primitive: The name of the primitive, as users know it.
        source: The line of the user's own code, or else of the library.
        library: The line of the library that the user's line calls, if one does.
        inside: The equations that it is inside of, the outermost first.
        shapes: The dtypes and shapes of its operands.
        literals: The values of the operands that are written in the program.
        outputs: The name, or dtype and shape, of each value that is digested.
    """

    kind: Kind
    primitive: str
    source: str
    library: str | None
    inside: tuple[str, ...]
    shapes: str
    literals: str
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Node:
    """The marks of one equation: first those inside it, then its own.

    Attributes:
        mark: The description of the equation.
        marked: Whether its outputs are digested.
        inner: The nodes of the jaxprs that it holds, one after another.
        rows: How often the digests of the inner nodes are kept: once, or for iterations of a loop.
        steps: The number of iterations in a row. The last row has the rest of them.
        start: The iteration that the first row begins with.
        loop: The number of the loop whose iterations the rows are; None for another equation.
        length: The number of its iterations; None if nothing tells before it runs.
    """

    mark: Mark
    marked: bool
    inner: tuple[Node, ...] = ()
    rows: int = 1
    steps: int = 1
    start: int = 0
    loop: int | None = None
    length: int | None = None

    @property
    def own(self) -> int:
        """The words of its own outputs."""
        return WIDTH * len(self.mark.outputs) if self.marked else 0

    @functools.cached_property
    def row(self) -> int:
        """The words of a row."""
        return sum(node.words for node in self.inner)

    @property
    def words(self) -> int:
        """All its words."""
        return self.rows * self.row + self.own

    def is_like(self, other: Node) -> bool:
        """Returns whether another node stands for the same equation, wherever its source is."""
        return self._kept() == other._kept() and all(
            mine.is_like(theirs) for mine, theirs in zip(self.inner, other.inner, strict=True)
        )

    def _kept(self) -> tuple[Any, ...]:
        mark = self.mark
        same = (mark.kind, mark.primitive, mark.shapes, mark.literals, mark.outputs, self.marked)
        return (*same, self.rows, self.steps, self.start, self.length, len(self.inner))


class Planner:
    """Makes the nodes of a jaxpr.

    Args:
        marks: The equations whose outputs get a digest.
        starts: The iteration that the rows of a loop begin with, by the number of the loop.
    """

    def __init__(self, marks: Marks, starts: Mapping[int, int]) -> None:
        self._marks = marks
        self._starts = starts
        self._loops = 0
        self._names = spec.load().op_of_primitive

    def nodes(
        self,
        closed: Any,
        inside: tuple[str, ...] = (),
        outside: source.Lines | None = None,
        copies: int = 1,
    ) -> tuple[Node, ...]:
        """Returns a node for the constants of a jaxpr, and one for each equation.

        Args:
            closed: The jaxpr with its constants.
            inside: The names of the equations that it is inside of.
            outside: The lines of the innermost of them.
            copies: How often the digests of this jaxpr are kept.
        """
        equations = jaxprs.opened(closed).eqns
        nodes = [self._node(equation, inside, outside, copies) for equation in equations]
        return (self._constants(closed, inside, outside), *nodes)

    def _constants(
        self, closed: Any, inside: tuple[str, ...], outside: source.Lines | None
    ) -> Node:
        jaxpr = jaxprs.opened(closed)
        where = (outside and outside.user) or "unknown source"
        constants = {id(variable) for variable in jaxpr.constvars}
        for equation in jaxpr.eqns:
            if any(id(operand) in constants for operand in equation.invars):
                lines = source.lines(equation, outside)
                where = lines.user or lines.library or where
                break
        types = tuple(f"{i}: {_short(constant)}" for i, constant in enumerate(jaxpr.constvars))
        mark = Mark("constant", "constant", where, None, inside, "", "", types)
        return Node(mark, marked=bool(types))

    def _node(
        self, equation: Any, inside: tuple[str, ...], outside: source.Lines | None, copies: int
    ) -> Node:
        lines, parts = source.lines(equation, outside), marked_bodies(equation)
        mark = self._mark(equation, lines, inside)
        marked = bool(mark.outputs) and self._is_marked(equation, parts)
        path, line = (*inside, label(equation)), lines
        if all(body.runs != "loop" for body in parts):
            inner = [n for body in parts for n in self.nodes(body.jaxpr, path, line, copies)]
            return Node(mark, marked, tuple(inner))
        number, self._loops = self._loops, self._loops + 1
        length = parts[0].length
        body = WIDTH * sum(map(_outputs, parts))
        most = _ROWS_OF_WHILE if length is None else length
        rows = max(1, min(most, _WORDS // max(copies * body, 1)))
        steps = max(1, -(-(length or 1) // rows))
        if number in self._starts:
            steps = 1
        inner = [n for body in parts for n in self.nodes(body.jaxpr, path, line, copies * rows)]
        start = self._starts.get(number, 0)
        return Node(mark, marked, tuple(inner), rows, steps, start, number, length)

    def _is_marked(self, equation: Any, parts: Sequence[Body]) -> bool:
        if self._marks == "calls":
            return bool(parts)
        # Each output of a call is an output of an equation inside it.
        if self._marks == "equations":
            return control_flow.called(equation) is None
        return not parts and _may_differ(equation)

    def _shown(self, name: str) -> str:
        """Returns the name of a primitive as users know it."""
        public = name.replace("-", "_")
        op = self._names.get(name, "")
        if op.endswith(f".{public}"):
            return op
        return f"lax.{public}" if hasattr(lax, public) else name

    def _mark(self, equation: Any, lines: source.Lines, inside: tuple[str, ...]) -> Mark:
        name = equation.primitive.name
        literals = [atom for atom in equation.invars if jaxprs.is_literal(atom)]
        outputs = enumerate(equation.outvars)
        return Mark(
            "equation",
            self._shown(name),
            lines.user or lines.library or "unknown source",
            lines.library if lines.user else None,
            inside,
            " ".join(map(_short, equation.invars)),
            " ".join(str(np.asarray(atom.val).tolist()) for atom in literals),
            tuple(f"{i}: {_short(out)}" for i, out in outputs if is_digested(out)),
        )


def marked_bodies(equation: Any) -> list[Body]:
    """Returns the bodies of an equation that are marked inside; none if it is one unit."""
    call = control_flow.called(equation)
    if call is not None:
        return [call]
    if not all(isinstance(v.aval, jax.core.ShapedArray) for v in equation.invars):
        return []  # A loop over a mutable array is one unit.
    if equation.primitive.name == "shard_map":
        # With the check, each equation inside would need a type that says over which axes it
        # varies.
        return [] if equation.params["check_vma"] else control_flow.bodies(equation)
    return [body for body in control_flow.bodies(equation) if body.runs != "once"]


def _may_differ(equation: Any) -> bool:
    """Returns whether an equation may give other bits for equal inputs, if XLA has no fault.

    One that moves elements, compares them or computes with whole numbers does not, unless its
    writes race.
    """
    name = equation.primitive.name
    if name in _racing() or control_flow.every_jaxpr(equation):
        return True
    portability = notes.portability(name, equation, jax.default_backend())
    return portability is not None and portability.answer != "exact"


@functools.cache
def _racing() -> frozenset[str]:
    """Returns the names of the primitives that have a row of equations that race."""
    rows = spec.load().primitives
    return frozenset(name for row in rows if row.mode_off is not None for name in row.primitives)


def windows(nodes: Iterable[Node]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the first iteration of the rows of each loop, and the number of those in a row.

    Returns:
        An array of [loops, 2], in the order of the numbers of the loops.
    """
    rows: dict[int, tuple[int, int]] = {}

    def collect(nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.loop is not None:
                rows[node.loop] = node.start, node.steps
            collect(node.inner)

    collect(nodes)
    return np.array([rows[loop] for loop in sorted(rows)], np.int32).reshape(-1, 2)


def _outputs(body: Body) -> int:
    """Returns the number of outputs of all equations, each of which counts once."""
    return sum(
        len(equation.outvars) + sum(map(_outputs, marked_bodies(equation)))
        for equation in body.opened.eqns
    )


def is_digested(variable: Any) -> bool:
    """Returns whether a variable is an array, and no token, mutable array or zero without bits."""
    aval = variable.aval
    return isinstance(aval, jax.core.ShapedArray) and aval.dtype != jax.dtypes.float0


def _short(variable: Any) -> str:
    aval = variable.aval
    short = getattr(aval, "str_short", None)
    return str(aval) if short is None else str(short(short_dtypes=True))
