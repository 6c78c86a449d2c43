"""Saves the digests of a run, compares two runs, and describes the first digest that differs.

The comparison goes through the nodes of both runs in the order in which the program computed them.
Where the words of a node differ, it looks inside: a loop is compared row by row, and the first row
that differs names the iteration. An equation is named only if no mark before it differs, so its
inputs were equal as far as marks tell. The text of a ``Difference`` is for example::

    train.py:12: lax.scatter_add gives other bits for equal inputs.
      operands: f32[8] i32[64,1] f32[64]
      differs: 0: f32[8]
      in scan (iteration 3)
      compared: the outputs of each equation that can round or race
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from impl._reading.control_flow import LOOPS
from impl._reading.walk import without_calls
from impl.programs._differences.marks import Mark, Marks, Node

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
Kind: TypeAlias = Literal[
    "equation", "argument", "constant", "program", "output", "unmarked", "element"
]
#: The first entry of a file of ``Recording.save``: it changes when the form of the file does.
SCHEMA = 2


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first difference between two runs of a program.

    Attributes:
        kind: "equation": an equation had equal inputs, and outputs with other bits. "argument" or
            "constant": the two runs did not begin with the same values, or the programs have
            different numbers in them. "program": the two programs have different equations here.
            "output": the outputs of the marked program differ, and no mark before them does.
            "unmarked": the outputs of the plain program differ, and no mark does. "element": the
            arguments have other shapes, and an element of the smaller run has other bits.
        primitive: The name of the primitive, as in an audit, such as ``lax.scatter_add``; the kind,
            if no equation differs.
        source: The line of the user's own code, as ``file:line``.
        library: The line and function of the library that the user's line calls, if one does.
        inside: The equations that it is inside of, such as ``scan``; the outermost first.
        iterations: The iteration of each loop among them, counted from 0 in the order in which they
            run.
        exact: Whether it is just this iteration. If not, the iteration is at least this one: the
            loop has more iterations than are marked one by one.
        shapes: The dtypes and shapes of its operands.
        outputs: The outputs that differ, each by its position, dtype and shape.
        marks: The marks that the runs had: "arithmetic", "equations" or "calls".
        note: The settings in which the two runs differ by design, such as their modes; None if they
            have the same.
    """

    kind: Kind
    primitive: str
    source: str
    library: str | None
    inside: tuple[str, ...]
    iterations: tuple[int, ...]
    exact: bool
    shapes: str
    outputs: tuple[str, ...]
    marks: Marks
    note: str | None = None

    def __str__(self) -> str:
        lines = [f"{_SENTENCES[self.kind].format(self)}"]
        lines += [f"  operands: {self.shapes}"] if self.shapes else []
        lines += [f"  differs: {', '.join(self.outputs)}"] if self.outputs else []
        lines += [f"  by {self.library}"] if self.library else []
        lines += [f"  in {' > '.join(self._path())}"] if self.inside else []
        lines += [f"  compared: the outputs of {_COMPARED[self.marks]}"]
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _path(self) -> list[str]:
        numbers = iter(self.iterations)
        path = []
        for name in self.inside:
            number = next(numbers, None) if name.split(" ")[0] in LOOPS else None
            more = "" if self.exact else " or later"
            path.append(name if number is None else f"{name} (iteration {number}{more})")
        return path


_COMPARED = {
    "arithmetic": "each equation that can round or race",
    "equations": "each equation",
    "calls": "each jitted function, loop and condition that the program calls",
}
_SENTENCES = {
    "equation": "{0.source}: {0.primitive} gives other bits for equal inputs.",
    "argument": "An argument of the program differs, before anything is computed.",
    "constant": "{0.source}: a number that is written in the program differs.",
    "program": "{0.source}: from {0.primitive} on, the two runs are not the same program.",
    "output": (
        "The outputs of the program differ, and the outputs of no call in it do: the difference is "
        "outside of them. marks='equations' names the equation."
    ),
    "element": "{0.source}: {0.primitive} is the first equation whose elements have other bits.",
    "unmarked": (
        "The outputs of the program differ, but no mark does. The marks change which equations XLA "
        "fuses, and the difference is gone with that. Coarser marks may keep it: marks='calls'."
    ),
}


class Comparison:
    """Finds the first mark that differs, in the order in which the marks were made.

    Attributes:
        unsure: The number and the first iteration of the loop in which the difference is, if the
            digests of several iterations are one; else None.
    """

    def __init__(self, marks: Marks) -> None:
        self.unsure: tuple[int, int] | None = None
        self._marks = marks
        self._iterations: tuple[int, ...] = ()

    def first(
        self, left: Sequence[Node], right: Sequence[Node], words: tuple[Words, Words]
    ) -> Difference | None:
        """Returns the first difference between the nodes of two runs, which have these words."""
        mine, theirs = words
        for one, other in zip(left, right, strict=False):
            difference = self._at(one, other, mine[: one.words], theirs[: other.words])
            if difference is not None:
                return difference
            mine, theirs = mine[one.words :], theirs[other.words :]
        if len(left) == len(right):
            return None
        longer = max(left, right, key=len)
        return self._difference("program", longer[min(len(left), len(right))].mark)

    def _at(self, one: Node, other: Node, mine: Words, theirs: Words) -> Difference | None:
        alike = one.is_like(other)
        if alike and np.array_equal(mine, theirs):
            return None
        ends = one.rows * one.row, other.rows * other.row
        rows = (
            mine[: ends[0]].reshape(one.rows, one.row),
            theirs[: ends[1]].reshape(other.rows, other.row),
        )
        difference = self._inside(one, other, rows, alike=alike)
        if difference is not None:
            return difference
        if not alike:
            literal = one.mark.literals != other.mark.literals
            return self._difference("constant" if literal else "program", one.mark)
        which = np.flatnonzero(mine[ends[0] :] != theirs[ends[1] :]).tolist()
        return self._difference(one.mark.kind, one.mark, which) if which else None

    def _inside(
        self, one: Node, other: Node, rows: tuple[Words, Words], *, alike: bool
    ) -> Difference | None:
        """Returns the first difference inside an equation."""
        row = 0
        if alike:
            differ = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
            if not len(differ):
                return None
            row = int(differ[0])
        before = self._iterations
        if one.loop is not None:
            iteration = one.start + row * one.steps
            self._iterations = (*before, iteration)
            is_last = row == one.rows - 1 and one.start + one.rows != one.length
            if self.unsure is None and (one.steps > 1 or is_last):
                self.unsure = one.loop, iteration
        difference = self.first(one.inner, other.inner, (rows[0][row], rows[1][row]))
        self._iterations = before
        return difference

    def _difference(self, kind: Kind, mark: Mark, which: Sequence[int] = ()) -> Difference:
        exact = self.unsure is None
        return at_mark(kind, mark, self._marks, self._iterations, which, exact=exact)


def at_mark(
    kind: Kind,
    mark: Mark,
    marks: Marks,
    iterations: tuple[int, ...],
    which: Sequence[int] = (),
    *,
    exact: bool = True,
) -> Difference:
    """Returns the difference at a mark, by the positions of its outputs that differ."""
    inside = mark.inside if marks == "calls" else without_calls(mark.inside)
    outputs = tuple(mark.outputs[i] for i in which)
    return Difference(
        *(kind, mark.primitive, mark.source, mark.library, inside, iterations, exact),
        *(mark.shapes, outputs, marks),
    )


@dataclasses.dataclass(frozen=True)
class Recording:
    """The digests of one run of a program, to compare with another run later.

    Attributes:
        marks: The equations whose outputs have a digest: "arithmetic", "equations" or "calls".
        setting: The releases and the device of the run, in words.
        mode: The mode of the run, in words.
        nodes: The marks.
        words: Their digests.
        outputs: The digests of the outputs of a run without marks; none if there was no such run.
    """

    marks: Marks
    setting: str
    mode: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)
    words: Words = dataclasses.field(repr=False)
    outputs: Words = dataclasses.field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording to a file, in NumPy's format ``npz``."""
        data = {
            "schema": SCHEMA,
            "marks": self.marks,
            "setting": self.setting,
            "mode": self.mode,
            "nodes": [dataclasses.asdict(node) for node in self.nodes],
        }
        with Path(path).open("wb") as file:
            np.savez_compressed(
                file, header=np.array(json.dumps(data)), words=self.words, outputs=self.outputs
            )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Reads a file that ``save`` wrote.

        Raises:
            ValueError: The file has another schema.
        """
        with np.load(path, allow_pickle=False) as file:
            data = json.loads(str(file["header"]))
            if data["schema"] != SCHEMA:
                raise ValueError(
                    f"{path} has the schema {data['schema']} of recordings, and this release of "
                    f"samebits reads {SCHEMA}: record it again"
                )
            nodes = tuple(map(_node, data["nodes"]))
            words, outputs = file["words"], file["outputs"]
            return Recording(data["marks"], data["setting"], data["mode"], nodes, words, outputs)


def setting() -> str:
    """Returns the release of JAX and the default device, in words."""
    device = jax.devices()[0]
    return f"jax {jax.__version__} on {device.platform} ({device.device_kind})"


def _node(data: dict[str, Any]) -> Node:
    mark: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.pop("mark").items()}
    return Node(Mark(**mark), inner=tuple(map(_node, data.pop("inner"))), **data)
