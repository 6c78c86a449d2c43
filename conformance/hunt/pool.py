"""The variables of a program that is being drawn, and the arguments that it has so far.

A token asks for an operand of some dtype and shape. It gets a variable that exists, or a new
argument: so most equations read earlier ones, and every token finds its operands. For example::

    pool = Pool(dice, rows=0)
    a = pool.pick("float32", least=1)           a new argument, for there is no variable yet
    pool.add("neg", Choice((a,), {}, aval))     variable 1, which reads variable 0
    b = pool.pick("float32", least=1)           mostly variable 1, which nothing reads yet
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.hunt import values
from conformance.hunt.dice import Dice
from conformance.hunt.program import Aval, Equation, Input, Program

#: The sizes of axes: none, one, even ones, and odd ones, which devices cannot share evenly.
_SIZES = (0, 1, 2, 3, 4, 4, 5, 7, 8, 8, 8, 12, 16, 16)
#: The sizes of axes of a bundle.
_LONG_SIZES = (1, 3, 7, 8, 16, 16, 24, 40)
#: The most elements of a new argument.
_MOST = 512


@dataclasses.dataclass(frozen=True)
class Choice:
    """The operands and parameters of a token.

    Attributes:
        operands: Variables of the pool.
        params: Parameters of the expression.
        aval: The type of the result.
    """

    operands: tuple[int, ...]
    params: Mapping[str, Any]
    aval: Aval


class Pool:
    """The variables of a program so far.

    Args:
        dice: The source of draws.
        rows: The number of rows that devices share; 0 for a program without such rows.
        bundle: For a program whose equations read arguments of their own, the kinds of their
            values, and how often each is drawn.

    Attributes:
        dice: The source of draws.
        rows: The number of rows.
    """

    def __init__(self, dice: Dice, rows: int, bundle: dict[str, int] | None = None) -> None:
        self.dice = dice
        self.rows = rows
        self.is_bundle = bundle is not None
        self._kinds = bundle or values.KINDS
        self._kind = dice.weighted(self._kinds)
        self._sizes = _LONG_SIZES if self.is_bundle else _SIZES
        self._variables: list[Input | tuple[str, Choice]] = []
        self._uses: list[int] = []

    def aval(self, variable: int) -> Aval:
        """Returns the type of a variable."""
        entry = self._variables[variable]
        return entry.aval if isinstance(entry, Input) else entry[1].aval

    def add(self, token: str, choice: Choice) -> int:
        """Adds an equation, and returns the variable of its result."""
        if self.is_bundle:
            self._kind = self.dice.weighted(self._kinds)
        for operand in choice.operands:
            self._uses[operand] += 1
        self._variables.append((token, choice))
        self._uses.append(0)
        return len(self._variables) - 1

    def argument(self, aval: Aval, *, limit: int | None = None, kind: str | None = None) -> int:
        """Returns a new argument; ``limit`` bounds indices, ``kind`` is one of ``values.KINDS``."""
        same = self.dice.happens(65 if self.is_bundle else 80)
        chosen = kind or (self._kind if same else self.dice.weighted(self._kinds))
        self._variables.append(values.draw(self.dice, aval, chosen, limit))
        self._uses.append(0)
        return len(self._variables) - 1

    def arguments_in_line(self, aval: Aval, count: int) -> tuple[int, ...]:
        """Returns new arguments whose elements of the same index are hard to add."""
        stacked = dataclasses.replace(aval, shape=(count, *aval.shape), rows=False)
        drawn = values.draw(self.dice, stacked, self._kind, axis=0)
        first = len(self._variables)
        self._variables += [Input.of(each, rows=aval.rows) for each in drawn.values()]
        self._uses += [0] * count
        return tuple(range(first, first + count))

    def pick(
        self,
        dtype: str,
        *,
        least: int = 0,
        most: int = 4,
        rows: bool | None = None,
        nonempty: bool = False,
    ) -> int:
        """Returns a variable of a dtype whose rank is between two numbers."""

        def fits(aval: Aval) -> bool:
            rank = len(aval.shape) - aval.rows
            return (
                aval.dtype == dtype
                and least <= rank <= most
                and rows in (None, aval.rows)
                and not (nonempty and aval.size == 0)
            )

        found = None if self.is_bundle else self._existing(fits)
        if found is not None and self.dice.happens(88):
            return found
        with_rows = bool(self.rows) and (self.dice.happens(65) if rows is None else rows)
        rank = self.dice.between(max(least, 0 if with_rows else 1), max(least, min(most, 3)))
        shape = self.shape(rank, nonempty=nonempty)
        return self.argument(Aval((self.rows, *shape) if with_rows else shape, dtype, with_rows))

    def like(self, aval: Aval) -> int:
        """Returns a variable of a type: another one, the same one, or a new argument."""
        found = None if self.is_bundle else self._existing(lambda other: other == aval)
        return found if found is not None and self.dice.happens(70) else self.argument(aval)

    def beside(self, variable: int) -> tuple[int, bool]:
        """Returns a second operand for an operation element by element.

        Returns:
            The variable, and whether it is broadcast: its shape is the end of the first one's.
        """
        aval = self.aval(variable)
        first = 1 if aval.rows else 0
        if aval.shape[first:] and self.dice.happens(25):
            cut = self.dice.between(first, len(aval.shape))
            return self.like(Aval(aval.shape[cut:], aval.dtype)), True
        return self.like(aval), False

    def shape(self, rank: int, *, nonempty: bool = False) -> tuple[int, ...]:
        """Returns a drawn shape of ``rank`` axes."""
        limit = _MOST // max(self.rows, 1)
        while True:
            sizes = tuple(
                self.dice.one_of(self._sizes[1:] if nonempty else self._sizes) for _ in range(rank)
            )
            fits = math.prod(max(size, 1) for size in sizes) <= limit
            if fits and (sizes.count(0) == 0 or self.dice.happens(20)):
                return sizes

    def axes(self, aval: Aval) -> list[int]:
        """Returns the axes that a token may reduce, sort or shift: not the shared rows."""
        return list(range(1 if aval.rows else 0, len(aval.shape)))

    def _existing(self, fits: Callable[[Aval], bool]) -> int | None:
        found = [index for index in range(len(self._variables)) if fits(self.aval(index))]
        fresh = [index for index in found if self._uses[index] == 0]
        if fresh and self.dice.happens(70):
            found = fresh
        return self.dice.one_of(found) if found else None

    def program(self, outputs: int, derivative: str) -> Program:
        """Returns the program, with results that nothing reads, and a few that something reads."""
        order = [i for i, entry in enumerate(self._variables) if isinstance(entry, Input)]
        primals = len(order)
        order += [i for i, entry in enumerate(self._variables) if not isinstance(entry, Input)]
        numbers = {old: new for new, old in enumerate(order)}
        equations = [
            Equation(
                entry[0],
                tuple(numbers[o] for o in entry[1].operands),
                entry[1].params,
                entry[1].aval,
            )
            for entry in self._variables
            if not isinstance(entry, Input)
        ]
        ends = [numbers[i] for i in order[primals:] if self._uses[i] == 0]
        read = [numbers[i] for i in order[primals:] if self._uses[i]]
        chosen = tuple(sorted({*ends, *self.dice.some_of(read, max(0, outputs - len(ends)))}))
        inputs = [entry for entry in self._variables if isinstance(entry, Input)]
        if derivative != "none":
            avals = [*(each.aval for each in inputs), *(each.aval for each in equations)]
            chosen = tuple(v for v in chosen if is_real(avals[v]))
            inputs += self._seeds(derivative, inputs, [avals[v] for v in chosen])
        return Program(tuple(inputs), tuple(equations), chosen, derivative, primals)

    def _seeds(
        self, derivative: str, inputs: Sequence[Input], outputs: Sequence[Aval]
    ) -> list[Input]:
        """Returns the tangents and cotangents that a derivative takes after the arguments."""
        tangents = [each.aval for each in inputs if is_real(each.aval)]
        needed = [
            *(outputs if derivative in ("reverse", "mixed") else []),
            *(tangents if derivative in ("forward", "mixed") else []),
        ]
        kinds = {"plain": 6, "wide": 1, "zeros": 1, "ties": 1}
        return [values.draw(self.dice, aval, self.dice.weighted(kinds)) for aval in needed]


def is_real(aval: Aval) -> bool:
    """Returns whether derivatives exist with respect to a variable: a float, and not complex."""
    return "float" in aval.dtype
