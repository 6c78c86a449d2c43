"""The tokens of the grammar: each is one kind of equation.

A token is a line of Python with blanks, and a form: a function of ``forms`` that draws its
operands. A table of a TOML file has both::

    [sum]
    form = "reduced"
    expression = "jnp.sum({0}, axis={axes}, dtype={0}.dtype)"
    dtypes = "all_floats"
    primitives = "reduce_sum"
    check = "sum"

The same line runs in a hunt and stands in the file of a finding.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from conformance.hunt.pool import Pool, Variable
from conformance.hunt.tokens import forms

#: Draws the operands and parameters of a token, for a dtype; None if the pool has no room for it.
Form: TypeAlias = Callable[[Pool, str, Mapping[str, Any]], Variable | None]

#: Floats with float64, which sums and roundings take.
_ALL_FLOATS = (*forms.FLOATS, "float64")
#: The dtypes that a word of a table stands for; another word is a dtype.
_DTYPES = {"floats": forms.FLOATS, "all_floats": _ALL_FLOATS, "numbers": (*_ALL_FLOATS, "int32")}


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
        jumps: Whether an argument that differs in its last bit may have another derivative.
        has_derivative: Whether it may stand in a program of a derivative.
        weight: How often it is drawn, in hundredths of an ordinary one.
        hard: The kind of the values that are hard for it, which half of its draws have; or none.
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
    jumps: bool = False
    has_derivative: bool = True
    weight: int = 100
    hard: str = ""
    family: str = ""
    refused: bool = False


_FIELDS = {field.name for field in dataclasses.fields(Token)}


def _read() -> Iterator[Token]:
    """Yields the tokens of all files.

    A table is a token. One with several names is a token for each; ``NAME`` stands for its name.
    ``jumps`` has the names of those that jump.
    """
    for file in sorted(Path(__file__).parent.glob("*.toml")):
        for names, table in tomllib.loads(file.read_text("utf-8")).items():
            for name in names.split():
                own = {**table, "form": getattr(forms, table["form"]), "name": name}
                own["expression"] = table["expression"].replace("NAME", name)
                own["primitives"] = tuple(table.get("primitives", "").replace("NAME", name).split())
                own["jumps"] = name in table.get("jumps", "").replace("NAME", name).split()
                words = table["dtypes"].split()
                own["dtypes"] = tuple(each for word in words for each in _DTYPES.get(word, (word,)))
                options = {key: own.pop(key) for key in own.keys() - _FIELDS}
                yield Token(**own, options=options)


#: The tokens, by name.
TOKENS: dict[str, Token] = {}
for _each in _read():
    if _each.name in TOKENS:
        raise ValueError(f"conformance/hunt/tokens: two tokens are named {_each.name}")
    TOKENS[_each.name] = _each
