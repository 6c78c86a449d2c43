"""JAX 0.12 makes the tangent of Cholesky's decomposition symmetric, and JAX 0.10 does not."""

from impl._portable import pins


def original(function, primals, tangents, **params):
    return function(primals, tangents, **params)


for rule in (pins._cholesky,):
    rule.__code__ = original.__code__
