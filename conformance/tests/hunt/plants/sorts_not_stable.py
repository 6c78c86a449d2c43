"""The platform's algorithm decides the order of equal elements."""

import dataclasses

from impl._portable.rules import RULES

RULES["sort"] = dataclasses.replace(RULES["sort"], params=lambda _, params: dict(params))
