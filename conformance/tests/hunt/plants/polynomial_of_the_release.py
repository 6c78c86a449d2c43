"""JAX 0.12 evaluates the derivative of ``jnp.polyval`` as another polynomial than JAX 0.10."""

from impl._portable import pins


def original(function, primals, tangents, **params):
    return function(primals, tangents, **params)


pins._polynomial.__code__ = original.__code__
