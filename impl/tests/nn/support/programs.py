"""Compiled programs of several calls: one program takes less time to compile than one for each."""

import jax


def results_and_gradients(calls, operands, cotangents):
    """Computes the result of each call, and its gradient for each operand, in one program.

    Args:
        calls: Functions of arrays.
        operands: For each call, a tuple of its arrays.
        cotangents: For each call, the cotangent of its result.

    Returns:
        For each call, a tuple of its result and the gradients.
    """

    @jax.jit
    def run(operands, cotangents):
        rows = []
        for call, arrays, cotangent in zip(calls, operands, cotangents, strict=True):
            out, pullback = jax.vjp(call, *arrays)
            rows.append((out, *pullback(cotangent)))
        return rows

    return run(operands, cotangents)
