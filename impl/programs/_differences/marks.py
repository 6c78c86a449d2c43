"""Plans the marks of a JAX program, and evaluates it with a digest of each marked output.

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

A digest is one word of 32 bits: two different values have the same digest once in 4 billion. The
device computes it by a sum of integers, whose order changes nothing. Each element is first mixed
with its index, so that two exchanged elements count; the mixer is ``fmix32`` of MurmurHash3 (Austin
Appleby). The program is evaluated equation by equation, inside one ``jax.jit``, and so are the
bodies of calls, loops and conditions. Each marked output stands behind an optimization barrier: its
digest is of the bits that the next equation gets. A loop carries its rows of words along. Of a
condition, the words of the branches that did not run are zeros.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import spec
from impl import _jax
from impl._jax import jaxpr_as_fun, jaxprs
from impl._reading import control_flow, source
from impl._reading.control_flow import CHOICE, Body
from impl._reading.walk import label
from impl.programs._auditing.judge import portability

Marks: TypeAlias = Literal["arithmetic", "equations", "calls"]
Kind: TypeAlias = Literal["equation", "argument", "constant", "output"]
Values: TypeAlias = list[Any]
Words: TypeAlias = list[jax.Array]

#: The greatest number of words of digests of one loop. A longer loop has several iterations in each
#: row.
_WORDS = 2**21
#: The number of rows of a ``while``, whose number of iterations is not known before it runs.
_ROWS_OF_WHILE = 1024


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
        return len(self.mark.outputs) if self.marked else 0

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
    """Makes the nodes of a jaxpr; the rows of a loop begin with the iteration of ``starts``."""

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

        The jaxpr is ``inside`` of equations, the innermost of which has the lines ``outside``. Its
        digests are kept as often as ``copies`` says.
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
        body = sum(map(_outputs, parts))
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
            *lines.shown,
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
    stated = portability(name, equation, jax.default_backend())
    return stated is not None and stated.answer != "exact"


@functools.cache
def _racing() -> frozenset[str]:
    """Returns the names of the primitives that have a row of equations that race."""
    rows = spec.load().primitives
    return frozenset(name for row in rows if row.mode_off is not None for name in row.primitives)


def every_node(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yields nodes, and those inside them."""
    for node in nodes:
        yield node
        yield from every_node(node.inner)


def windows(nodes: Iterable[Node]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the first iteration of the rows of each loop, and the number of those in a row.

    Returns:
        An array of [loops, 2], in the order of the numbers of the loops.
    """
    rows = {
        node.loop: (node.start, node.steps) for node in every_node(nodes) if node.loop is not None
    }
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


def evaluate(
    closed: Any, arguments: Sequence[Any], nodes: Sequence[Node], windows: Any
) -> tuple[Values, Words]:
    """Returns the outputs of a jaxpr, and the words of its nodes, inside a trace of JAX."""
    jaxpr = jaxprs.opened(closed)
    environment = jaxprs.constants(closed)
    words = digests(environment.values()) if nodes[0].marked else []
    environment |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if jaxprs.is_literal(atom) else environment[atom]

    for equation, node in zip(jaxpr.eqns, nodes[1:], strict=True):
        with equation.ctx.manager:  # Equations within may have no tag of their own.
            operands = [read(operand) for operand in equation.invars]
            outputs, inner = _step(equation, operands, node, windows)
        words += inner
        if node.marked:
            outputs = behind_barrier(outputs)
            pairs = zip(equation.outvars, outputs, strict=True)
            words += digests([value for out, value in pairs if is_digested(out)])
        environment |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars], words


def _step(equation: Any, operands: Values, node: Node, windows: Any) -> tuple[Values, Words]:
    bodies = marked_bodies(equation)
    if not bodies:
        return _jax.evaluated(equation, operands), []
    if equation.primitive.name == "shard_map":
        return _shard_map(equation.params, bodies[0], operands, node, windows)
    if bodies[0].runs == "once":
        return evaluate(bodies[0].jaxpr, operands, node.inner, windows)
    run = {"branch": _cond, "loop": _while if bodies[0].is_test else _scan}
    return run[bodies[0].runs](bodies, operands, node, windows)


def _scan(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    (body,) = bodies
    carried = len(body.carries)

    def step(state: Any, element: Any) -> Any:
        index, rows, values = state
        inputs = body.arguments(operands, values, element)
        outputs, words = evaluate(body.jaxpr, inputs, node.inner, windows)
        rows = _with_row(rows, index, words, windows[node.loop])
        return (index + 1, rows, outputs[:carried]), outputs[carried:]

    first = (np.int32(0), _no_rows(node), [operands[each.operand] for each in body.carries])
    elements = [operands[each.operand] for each in body.slices]
    (_, rows, carry), stacked = lax.scan(
        step, first, elements, length=body.length, reverse=body.reverse
    )
    return [*carry, *stacked], [rows.reshape(-1)]


def _while(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    test, body = bodies
    of_test, of_body = nodes_of(bodies, node)

    def goes_on(state: Any) -> Any:
        return jnp.any(jaxpr_as_fun(test.jaxpr)(*test.arguments(operands, state[2]))[0])

    def step(state: Any) -> Any:
        index, rows, values = state
        (runs,), tested = evaluate(test.jaxpr, test.arguments(operands, values), of_test, windows)
        after, words = evaluate(body.jaxpr, body.arguments(operands, values), of_body, windows)
        if jnp.ndim(runs):  # Under vmap, an element stays as it is when its own loop has ended.
            after = [_where(runs, new, old) for new, old in zip(after, values, strict=True)]
        return index + 1, _with_row(rows, index, [*tested, *words], windows[node.loop]), after

    start = (np.int32(0), _no_rows(node), [operands[each.operand] for each in body.carries])
    _, rows, values = lax.while_loop(goes_on, step, start)
    return values, [rows.reshape(-1)]


def _where(which: jax.Array, new: Any, old: Any) -> Any:
    shape = which.shape + (1,) * (jnp.ndim(new) - which.ndim)
    return jnp.where(which.reshape(shape), new, old)


def _cond(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    groups = nodes_of(bodies, node)
    sizes = [sum(inner.words for inner in group) for group in groups]

    def branch(position: int) -> Any:
        def run(*values: Any) -> Any:
            body = bodies[position]
            inputs = body.arguments(values)
            outputs, words = evaluate(body.jaxpr, inputs, groups[position], windows)
            before, after = sum(sizes[:position]), sum(sizes[position + 1 :])
            zeros = [jnp.zeros(size, jnp.uint32) for size in (before, after)]
            return outputs, joined([zeros[0], *words, zeros[1]])

        return run

    index = jnp.asarray(operands[CHOICE], jnp.int32)
    outputs, words = lax.switch(index, [branch(i) for i in range(len(bodies))], *operands)
    return outputs, [words]


def nodes_of(bodies: Sequence[Body], node: Node) -> list[Sequence[Node]]:
    """Returns the nodes of each body: one for its constants, and one for each equation."""
    rest = iter(node.inner)
    return [tuple(itertools.islice(rest, 1 + len(body.opened.eqns))) for body in bodies]


def _shard_map(
    params: Mapping[str, Any], inside: Body, operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    mesh, axes = params["mesh"], params["newly_manual_axes"]
    along = jax.P(tuple(name for name in mesh.axis_names if name in axes))

    def body(rows: jax.Array, *values: Any) -> Any:
        outputs, words = evaluate(inside.jaxpr, values, node.inner, rows)
        return tuple(outputs), joined(words)[None]

    local = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=(jax.P(), *params["in_specs"]),
        out_specs=(tuple(params["out_specs"]), along),
        axis_names=axes,
        check_vma=False,
    )
    outputs, words = local(windows, *operands)
    device = lax.broadcasted_iota(jnp.uint32, words.shape, 0) + np.uint32(1)
    # One word for all devices, since the outputs show which device differs.
    return list(outputs), [jnp.sum(_mixed(words ^ _mixed(device)), axis=0, dtype=jnp.uint32)]


def _no_rows(node: Node) -> jax.Array:
    return jnp.zeros((node.rows, node.row), jnp.uint32)


def _with_row(rows: jax.Array, index: jax.Array, words: Words, window: jax.Array) -> jax.Array:
    """Returns the rows with the digests of one iteration; iterations before the first add none."""
    start, steps = window
    since = index - start
    row = jnp.clip(since // steps, 0, len(rows) - 1)
    old = lax.dynamic_index_in_dim(rows, row, 0, keepdims=False)
    # Several iterations in a row: each permutation of them gives other words.
    new = jnp.where(since < 0, old, old * np.uint32(0x9E3779B1) + joined(words))
    updated: jax.Array = lax.dynamic_update_index_in_dim(rows, new, row, 0)
    return updated


def joined(words: Words) -> jax.Array:
    """Returns words as one array."""
    return jnp.concatenate([jnp.zeros(0, jnp.uint32), *words])


def behind_barrier(values: Values) -> Values:
    """Returns values that XLA computes before any later equation reads them."""
    arrays = [i for i, value in enumerate(values) if _is_plain_array(value)]
    fenced = lax.optimization_barrier([values[i] for i in arrays])
    for i, value in zip(arrays, fenced, strict=True):
        values[i] = value
    return values


def _is_plain_array(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    special = jax.dtypes.extended
    return dtype is not None and hasattr(value, "shape") and not jnp.issubdtype(dtype, special)


def digests(values: Iterable[Any]) -> Words:
    """Returns the word of each value."""
    pairs = ((v, jnp.issubdtype(jnp.result_type(v), jax.dtypes.prng_key)) for v in values)
    return [_digest(jax.random.key_data(v) if is_key else v) for v, is_key in pairs]


@jax.jit
def _digest(value: jax.Array) -> jax.Array:
    """Returns the word of an array: the sum of its bits, each word mixed with its index."""
    value = jnp.asarray(value)
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        real, imaginary = _digest(value.real), _digest(value.imag)
        whole: jax.Array = real + imaginary * np.uint32(0x85EBCA6B)
        return whole
    words = _bits(value)
    index = lax.full_like(words, 1)
    strides = [math.prod(words.shape[axis + 1 :]) for axis in range(words.ndim)]
    for axis, stride in enumerate(strides):
        along = lax.broadcasted_iota(jnp.uint32, words.shape, axis)
        index = index + along * np.uint32(stride % 2**32)
    # One sum without a reshape: compiling it for each mark is most of the cost of marks, and XLA
    # gathers a sharded array to reshape it.
    return jnp.sum(_mixed(words ^ index * np.uint32(0x9E3779B1)), dtype=jnp.uint32).reshape(1)


def _bits(value: jax.Array) -> jax.Array:
    """Returns the bits of an array of numbers or bools as words of 32 bits."""
    if value.dtype == bool:
        return value.astype(jnp.uint32)
    floats = jnp.issubdtype(value.dtype, jnp.floating)
    bits = jnp.finfo(value.dtype).bits if floats else jnp.iinfo(value.dtype).bits
    unsigned = {2: "uint2", 4: "uint4", 8: "uint8", 16: "uint16"}.get(bits, "uint32")
    return lax.bitcast_convert_type(value, jnp.dtype(unsigned)).astype(jnp.uint32)


def _mixed(words: jax.Array) -> jax.Array:
    words = (words ^ (words >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return words ^ (words >> np.uint32(16))
