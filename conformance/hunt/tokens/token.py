"""The record of a token: how an equation is drawn, written and checked."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
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
#: The dtypes that a word of a table stands for; another word is a dtype.
DTYPES = {"floats": FLOATS, "all_floats": ALL_FLOATS, "numbers": NUMBERS}
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


def read(forms: ModuleType) -> Iterator[tuple[str, Token]]:
    """Yields the tokens of the TOML file of a module of forms, by name.

    A table is a token. One with several names is a token for each; ``NAME`` stands for its name.
    """
    tables = tomllib.loads(Path(str(forms.__file__)).with_suffix(".toml").read_text("utf-8"))
    fields = {field.name for field in dataclasses.fields(Token)}
    for names, table in tables.items():
        for name in names.split():
            own = {**table, "form": getattr(forms, table["form"]), "name": name}
            own["expression"] = table["expression"].replace("NAME", name)
            primitives = table.get("primitives", "").replace("NAME", name)
            own["primitives"] = tuple(primitives.split())
            words = table["dtypes"].split()
            own["dtypes"] = tuple(dtype for word in words for dtype in DTYPES.get(word, (word,)))
            options = {key: own.pop(key) for key in own.keys() - fields}
            yield name, Token(**own, options=options)
