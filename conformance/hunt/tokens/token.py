"""The record of a token: how an equation is drawn, written and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from conformance.hunt.pool import Choice, Pool

#: Draws the operands and parameters of a token, for a dtype; None if the pool has no room for it.
Form: TypeAlias = Callable[[Pool, str, Mapping[str, Any]], Choice | None]

#: Real floats whose operations and functions have a portable path.
FLOATS = ("float32", "bfloat16", "float16")
#: The same with float64, which sums and roundings take.
ALL_FLOATS = (*FLOATS, "float64")
#: Real floats and integers.
NUMBERS = (*ALL_FLOATS, "int32")
COMPLEX = ("complex64",)
#: A size in a parameter: the rows of the first operand, of which a device may have a part.
ROWS = "ROWS"


@dataclasses.dataclass(frozen=True, eq=False)
class Token:
    """One kind of equation.

    Attributes:
        name: Its name.
        form: The function that draws its operands and parameters.
        expression: Python, with ``{0}`` for the first operand and ``{axis}`` for a parameter.
        dtypes: The dtypes of the first operand.
        primitives: The primitives of JAX that it is drawn for.
        check: How its result is checked against its operands: a name in
            ``conformance.hunt.oracles``.
        options: Further arguments of the form.
        has_derivative: Whether it may stand in a program of a derivative.
        weight: How often it is drawn, in hundredths of an ordinary one.
        family: The tokens of a bundle: equations that read arguments of their own, which are hard
            for each token of the family. A name of ``conformance.hunt.grammar``; or none.
        refused: Whether the guarantee refuses it by name.
    """

    name: str
    form: Form
    expression: str
    dtypes: tuple[str, ...]
    primitives: tuple[str, ...]
    check: str = "near"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_derivative: bool = True
    weight: int = 100
    family: str = ""
    refused: bool = False


TOKENS: dict[str, Token] = {}


def token(
    name: str,
    form: Form,
    expression: str,
    dtypes: tuple[str, ...],
    primitives: str,
    *,
    check: str = "near",
    has_derivative: bool = True,
    weight: int = 100,
    family: str = "",
    refused: bool = False,
    **options: Any,
) -> None:
    """Registers a token.

    Raises:
        ValueError: There is a token of this name.
    """
    if name in TOKENS:
        raise ValueError(f"token: there is a token {name!r} already; choose another name")
    TOKENS[name] = Token(
        name,
        form,
        expression,
        dtypes,
        tuple(primitives.split()),
        check,
        options,
        has_derivative,
        weight,
        family,
        refused,
    )
