"""JAX 0.12 writes the derivatives of some functions in another way than JAX 0.10."""

from impl._portable import pins


def original(primitive, function, derivative, primals, tangents, **params):
    del primitive, derivative
    return function(primals, tangents, **params)


pins._jvp.__code__ = original.__code__
