"""JAX's own scatters with the mode on: every form has the values of JAX, and the spec's order.

Tests: impl._run_to_run.ordered.
"""

import jax
import numpy as np
import pytest

import impl
from impl.tests.programs.texts import OPTIONS
from impl.tests.run_to_run.drawn_scatters import draw

KINDS = [
    ("scatter_add", "float32"),
    ("scatter_add", "bfloat16"),
    ("scatter_add", "complex64"),
    ("scatter_add", "int8"),
    ("scatter_sub", "float16"),
    ("scatter_mul", "float32"),
    ("scatter", "float32"),
    ("scatter", "bool"),
    ("scatter", "complex64"),
    ("scatter_max", "float32"),
]


#: On a CPU these are computed in the spec's order under the guarantee ``portable``.
ON_A_CPU = [kind for kind in KINDS if kind[0] in ("scatter_mul", "scatter")]


@pytest.mark.parametrize(("lowering", "kinds"), [("native", ON_A_CPU), ("xla", KINDS)])
def test_a_scatter_of_any_form_has_the_values_of_jax(rng, lowering, kinds):
    drawn = [draw(rng, dtype, name) for name, dtype in kinds for _ in range(3)]

    def program(operands):
        return [case(*arrays) for case, arrays in zip(drawn, operands, strict=True)]

    operands = [(case.operand, case.indices, case.updates) for case in drawn]
    jitted = jax.jit(program, compiler_options=OPTIONS)
    expected = jitted(operands)
    with impl.deterministic(), impl.testing.emulate("cuda", lowering=lowering):
        actual = jitted(operands)
    for case, wanted, got in zip(drawn, expected, actual, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted), str(case))
