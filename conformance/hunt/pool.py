"""The variables of a program that is being drawn, and the draws themselves.

A token asks for an operand of some dtype and shape. It gets a variable that exists, or a new
argument: so most equations read earlier ones, and every token finds its operands. For example::

    pool = Pool(Dice("seed"), rows=0)
    a = pool.pick("float32", least=1)           a new argument, for there is no variable yet
    pool.add("neg", equation(a.aval, a))        a second variable, which reads the first one
    b = pool.pick("float32", least=1)           mostly the second one, which nothing reads yet
"""

from __future__ import annotations

import dataclasses
import math
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from conformance.hunt import values
from conformance.hunt.program import Aval, Equation, Input, Program

T = TypeVar("T")

#: The sizes of axes: none, one, even ones, and odd ones, which devices cannot share evenly.
_SIZES = (0, 1, 2, 3, 4, 4, 5, 7, 8, 8, 8, 12, 16, 16)
#: The sizes of axes of a bundle.
_LONG_SIZES = (1, 3, 7, 8, 16, 16, 24, 40)
#: The most elements of a new argument.
_MOST = 512
#: How often each thing is drawn, by the name of its table.
WEIGHTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("weights.toml").read_text("utf-8"))


class Dice(random.Random):
    """A source of draws, which are the same for the same text everywhere.

    Hypothesis is no substitute. It replays draws, so they cannot depend on the programs before; and
    it prefers small programs and equal draws. 300 programs of this grammar then have 69 tokens,
    and 204 by these draws.
    """

    def happens(self, percent: int) -> bool:
        """Returns True in ``percent`` of a hundred draws."""
        return self.random() * 100 < percent

    def weighted(self, weights: Mapping[T, int]) -> T:
        """Returns a key of a table, as often as its weight says."""
        return self.choices([*weights], [*weights.values()])[0]


@dataclasses.dataclass(eq=False)
class Variable:
    """An argument with its value, or the result of an equation, with its token and what it reads.

    ``uses`` is how many operands of other equations it is.
    """

    aval: Aval
    operands: tuple[Variable, ...] = ()
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    value: Input | None = None
    token: str = ""
    uses: int = 0


def equation(aval: Aval, *operands: Variable, **params: Any) -> Variable:
    """Returns the result of an equation with a type, operands and parameters."""
    return Variable(aval, operands, params)


class Pool:
    """The variables of a program so far.

    ``rows`` is the number of rows that devices share; 0 for a program without such rows. A
    ``bundle``, whose equations read arguments of their own, is a family of ``weights.toml``. While
    ``hard`` is a kind, operands are new arguments of it.
    """

    hard = ""

    def __init__(self, dice: Dice, rows: int, bundle: Mapping[str, Any] | None = None) -> None:
        self.dice = dice
        self.rows = rows
        self.is_bundle = bundle is not None
        self._kinds = bundle["values"] if bundle else WEIGHTS["values"]
        self._sizes = bundle.get("sizes", _LONG_SIZES) if bundle else _SIZES
        self._kind = dice.weighted(self._kinds)
        self._variables: list[Variable] = []

    def add(self, token: str, result: Variable) -> None:
        """Adds an equation of a token."""
        if self.is_bundle:
            self._kind = self.dice.weighted(self._kinds)
        for operand in result.operands:
            operand.uses += 1
        result.token = token
        self._variables.append(result)

    def argument(
        self, aval: Aval, *, limit: int | None = None, kind: str | None = None
    ) -> Variable:
        """Returns a new argument; ``limit`` bounds indices, ``kind`` is one of ``values``."""
        same = self.dice.happens(65 if self.is_bundle else 80)
        chosen = kind or self.hard or (self._kind if same else self.dice.weighted(self._kinds))
        return self._argument(values.draw(self.dice, aval, chosen, limit))

    def arguments_in_line(self, aval: Aval, count: int) -> list[Variable]:
        """Returns new arguments whose elements of the same index are hard to add."""
        stacked = dataclasses.replace(aval, shape=(count, *aval.shape), rows=False)
        drawn = values.draw(self.dice, stacked, self._kind, axis=0)
        return [self._argument(Input.of(each, rows=aval.rows)) for each in drawn.values()]

    def _argument(self, value: Input) -> Variable:
        self._variables.append(Variable(value.aval, value=value))
        return self._variables[-1]

    def pick(
        self,
        dtype: str,
        *,
        least: int = 0,
        most: int = 4,
        rows: bool | None = None,
        nonempty: bool = False,
    ) -> Variable:
        """Returns a variable of a dtype whose rank is between two numbers."""

        def fits(aval: Aval) -> bool:
            rank = len(aval.shape) - aval.rows
            return (
                aval.dtype == dtype
                and least <= rank <= most
                and rows in (None, aval.rows)
                and not (nonempty and aval.size == 0)
            )

        existing = self._existing(fits)
        if existing is not None and self.dice.happens(88):
            return existing
        with_rows = bool(self.rows) and (self.dice.happens(65) if rows is None else rows)
        rank = self.dice.randint(max(least, 0 if with_rows else 1), max(least, min(most, 3)))
        shape = self.shape(rank, nonempty=nonempty)
        return self.argument(Aval((self.rows, *shape) if with_rows else shape, dtype, with_rows))

    def like(self, aval: Aval) -> Variable:
        """Returns a variable of a type: another one, the same one, or a new argument."""
        existing = self._existing(lambda other: other == aval)
        is_taken = existing is not None and self.dice.happens(70)
        return existing if existing is not None and is_taken else self.argument(aval)

    def beside(self, variable: Variable) -> tuple[Variable, bool]:
        """Returns a second operand for an operation element by element.

        Returns:
            The variable, and whether it is broadcast: its shape is the end of the first one's.
        """
        aval = variable.aval
        first = 1 if aval.rows else 0
        if aval.shape[first:] and self.dice.happens(25):
            cut = self.dice.randint(first, len(aval.shape))
            return self.like(Aval(aval.shape[cut:], aval.dtype)), True
        return self.like(aval), False

    def shape(self, rank: int, *, nonempty: bool = False) -> tuple[int, ...]:
        """Returns a drawn shape of ``rank`` axes."""
        limit = _MOST // max(self.rows, 1)
        own = _LONG_SIZES if self.hard and not self.is_bundle else self._sizes
        while True:
            sizes = tuple(self.dice.choice(own[1:] if nonempty else own) for _ in range(rank))
            fits = math.prod(max(size, 1) for size in sizes) <= limit
            if fits and (0 not in sizes or self.dice.happens(20)):
                return sizes

    def _existing(self, fits: Callable[[Aval], bool]) -> Variable | None:
        if self.is_bundle or self.hard:
            return None
        fitting = [each for each in self._variables if fits(each.aval)]
        fresh = [each for each in fitting if not each.uses]
        if fresh and self.dice.happens(70):
            fitting = fresh
        return self.dice.choice(fitting) if fitting else None

    def program(self, outputs: int, derivative: str) -> Program:
        """Returns the program, with results that nothing reads, and a few that something reads."""
        inputs = [each.value for each in self._variables if each.value is not None]
        ordered = sorted(self._variables, key=lambda each: each.value is None)
        primals, equations = len(inputs), ordered[len(inputs) :]
        numbers = {each: number for number, each in enumerate(ordered)}
        ends = [numbers[each] for each in equations if not each.uses]
        read = [numbers[each] for each in equations if each.uses]
        further = self.dice.sample(read, min(len(read), max(0, outputs - len(ends))))
        results = sorted([*ends, *further])
        if derivative != "none":
            results = [v for v in results if ordered[v].aval.is_real]
            inputs += self._seeds(derivative, inputs, [ordered[v].aval for v in results])
        return Program(
            tuple(inputs),
            tuple(
                Equation(
                    each.token, tuple(numbers[v] for v in each.operands), each.params, each.aval
                )
                for each in equations
            ),
            tuple(results),
            derivative,
            primals,
        )

    def _seeds(
        self, derivative: str, inputs: Sequence[Input], outputs: Sequence[Aval]
    ) -> list[Input]:
        """Returns the tangents and cotangents that a derivative takes after the arguments."""
        tangents = [each.aval for each in inputs if each.aval.is_real]
        needed = [
            *(outputs if derivative in ("reverse", "mixed") else []),
            *(tangents if derivative in ("forward", "mixed") else []),
        ]
        return [
            values.draw(self.dice, aval, self.dice.weighted(WEIGHTS["seeds"])) for aval in needed
        ]
