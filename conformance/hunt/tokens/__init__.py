"""The tokens of the grammar: each is one kind of equation.

A token is a line of Python with blanks, and a function that draws its operands::

    token("sum", _reduced, "jnp.sum({0}, axis={axes})", ALL_FLOATS, "reduce_sum", check="sum")

The same line runs in a hunt and stands in the file of a finding.
"""

from __future__ import annotations

# Each module registers its tokens.
from conformance.hunt.tokens import contracting as contracting
from conformance.hunt.tokens import controlling as controlling
from conformance.hunt.tokens import elementwise as elementwise
from conformance.hunt.tokens import moving as moving
from conformance.hunt.tokens import reducing as reducing
from conformance.hunt.tokens import refused as refused
from conformance.hunt.tokens import rows as rows
from conformance.hunt.tokens.token import TOKENS as TOKENS
from conformance.hunt.tokens.token import Token as Token
