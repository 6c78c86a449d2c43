"""The platform decides which zero is the greater one, and XLA's evaluator decides for constants."""

import dataclasses

from jax import lax

from impl._portable.rules import RULES

for name, function in (("max", lax.max), ("min", lax.min)):

    def compute(a, b, function=function, **_):
        return function(a, b)

    RULES[name] = dataclasses.replace(RULES[name], compute=compute)
