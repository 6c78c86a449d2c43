"""The tokens of the grammar: each is one kind of equation.

A token is a line of Python with blanks, and a form: a function that draws its operands. A table of
a TOML file has both, and the module of the same name has the form::

    [sum]
    form = "reduced"
    expression = "jnp.sum({0}, axis={axes}, dtype={0}.dtype)"
    dtypes = "all_floats"
    primitives = "reduce_sum"
    check = "sum"

The same line runs in a hunt and stands in the file of a finding.
"""

from __future__ import annotations

from conformance.hunt.tokens import (
    contracting,
    controlling,
    elementwise,
    moving,
    reducing,
    refused,
    rows,
)
from conformance.hunt.tokens.token import Token as Token
from conformance.hunt.tokens.token import read

_FORMS = (contracting, controlling, elementwise, moving, reducing, refused, rows)
TOKENS: dict[str, Token] = {name: each for forms in _FORMS for name, each in read(forms)}
