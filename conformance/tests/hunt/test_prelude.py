"""Ways to call a function: by rows, by `pmap`, and in a scope of a program without the guarantee.

Tests: conformance.hunt.prelude.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
from conformance.hunt import prelude, settings, source
from conformance.hunt.pool import Dice
from conformance.hunt.program import Aval, Equation, Input, Program
from conformance.hunt.settings import Setting
from conformance.tests.hunt.examples import drawn
from impl._soft_float64 import engines

ROWS = np.arange(16, dtype=np.float32).reshape(8, 2)


def test_sums_over_devices_are_counted_and_greatest_elements_are_not():
    def shared(x):
        return lax.psum(x, "a") + lax.pmax(x, "a") + lax.psum(2 * x, "a")

    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    own = jax.shard_map(shared, mesh=mesh, in_specs=P("a"), out_specs=P())
    text = prelude.lowered_text(own, [jnp.ones(2)])
    assert text.count("stablehlo.all_reduce") == 3
    assert prelude.sums_over_devices(text) == 2


def test_rows_apart_have_their_values_unless_a_function_mixes_them():
    def apart(how, function):
        return prelude.called(function, [jnp.asarray(ROWS), jnp.ones(2)], how)

    for how in ("jit", "rows 10 10"):
        rows, shared = apart(how, lambda x, y: (x * y, y + 1))
        np.testing.assert_array_equal(rows, ROWS)
        np.testing.assert_array_equal(shared, [2, 2])
    (mixed,) = apart("rows 10 1", lambda x, y: x - x.sum(0) * y)
    assert not np.array_equal(mixed, ROWS - ROWS.sum(0))


def test_a_pmap_of_rows_joins_its_results():
    shared = prelude.by_pmap(lambda x, y: (x * y, lax.psum(x.sum(0), "a")), 1, "10", "10")
    rows, total = shared(jnp.asarray(ROWS), jnp.full(2, 2.0))
    np.testing.assert_array_equal(rows, 2 * ROWS)
    np.testing.assert_array_equal(total, ROWS.sum(0))


def test_the_call_by_rows_names_arguments_and_results_with_rows():
    inputs = (Input.of(ROWS, rows=True), Input.of(np.ones(2, np.float32)))
    equation = Equation("mul", (0, 1), {"broadcasts": True}, Aval((8, 2), "float32", rows=True))
    program = Program(inputs, (equation,), (2,), "none", 2)
    assert 'arguments, "rows 10 1"' in source.function(program, Setting("rows"))


def test_a_scope_has_the_guarantee_and_the_program_around_it_has_none():
    # XLA adds one term after the other, so the last one is lost; it decides the rounding.
    terms = jnp.array([1, 2.0**-24, 2.0**-60], "float32")
    (total,) = prelude.called(jnp.sum, [terms], "scope")
    assert total == np.float32(1 + 2.0**-23)
    assert not impl.are_deterministic_algorithms_enabled()
    assert prelude.called(jnp.sum, [terms], "jit")[0] == 1


def test_a_call_by_an_engine_takes_it():
    found = []

    def total(x):
        found.append(engines.of_program(["cpu"]))
        return jnp.sum(x)

    for how in ("jit", "float64", "integers"):
        (result,) = prelude.called(total, [jnp.ones(3)], how)
        assert result == 3
    assert found == ["native", "float64", "integers"]


def test_programs_by_integers_are_short_and_programs_by_rows_mix_none():
    calls = set()
    for index, program in enumerate(drawn(6, 400)):
        for each in settings.draw(Dice(f"6 {index}"), program, 2):
            if each.call == "integers":
                assert each.worker == 1
                assert len(program.equations) <= 3
                assert not program.is_wide
            if each.call == "rows":
                assert program.has_rows
                assert program.derivative in ("none", "forward")
                assert "devices(" not in source.function(program, each).split("def program")[1]
            calls |= {each.call, each.partition}
    assert {"integers", "rows", "scope", "pmap"} <= calls


def test_a_lowered_text_has_equal_functions_once():
    def text(name: str, body: str, *again: str) -> str:
        called = "".join(
            f"  func.func private @{each}() {{\n    {body}\n  }}\n" for each in (name, *again)
        )
        calls = "".join(f"    call @{each}()\n" for each in (name, *again)[-1:])
        return f"module {{\n  func.func public @main() {{\n{calls}  }}\n{called}}}\n"

    own = prelude.without_repeats(text("f", "return"))
    assert own == prelude.without_repeats(text("f_0", "return", "f_1"))
    assert own != prelude.without_repeats(text("f", "return %0"))


def test_payloads_and_subnormals_do_not_show_in_a_digest():
    one = np.array([np.nan, -0.0, 1.0, 2.0**-126], np.float32)
    other = np.array([-np.nan, -(2.0**-140), 1.0, 2.0**-126], np.float32)
    assert prelude.digest(prelude.canonical(one)) == prelude.digest(prelude.canonical(other))
    other[1] = 2.0**-140
    assert prelude.digest(prelude.canonical(one)) != prelude.digest(prelude.canonical(other))
