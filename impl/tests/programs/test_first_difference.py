"""``impl.first_difference``: the equation and iteration that it names, the functions that it takes.

Tests: impl.programs._differences.comparison, impl.programs._differences.marks.
"""

import contextlib
import functools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl.programs._differences import first_difference
from impl.programs._differences.marks import Planner, digests, evaluate, every_node, windows
from impl.tests.programs.racing import LINE, OTHER, SAME, SIZES, schedules, sums


@jax.custom_vjp
def identity(x):
    return x


identity.defvjp(lambda x: (x, None), lambda _, g: (g + sums(SAME, SIZES),))


def in_scan(x):
    def step(carry, number):
        return sums(jnp.where(number == 3, SAME, OTHER), carry), carry > 0

    return lax.scan(step, x, jnp.arange(5), reverse=True)


def in_cond(x):
    return lax.cond(x[0] > 0, lambda v: sums(SAME, v), lambda v: jnp.sin(jnp.cos(v)), x)


def in_while(x):
    def step(state):
        return state[0] + 1, sums(jnp.where(state[0] == 3, SAME, OTHER), x)

    return lax.while_loop(lambda state: state[0] < 5, step, (0, x))


@pytest.mark.parametrize(
    ("program", "inside", "iterations"),
    [(in_scan, ("scan",), (1,)), (in_cond, ("cond",), ()), (in_while, ("while",), (3,))],
)
def test_a_racing_scatter_is_named_with_its_line_and_iteration(program, inside, iterations):
    x = jnp.asarray(SIZES)
    found = impl.first_difference(program, x, between=schedules(), marks="equations")
    assert found.kind == "equation"
    assert found.primitive == "lax.scatter_add"
    assert found.source.endswith(LINE)
    assert (found.inside, found.iterations, found.exact) == (inside, iterations, True)
    assert found.shapes == "f32[6] i32[6,1] f32[6]"
    assert found.outputs == ("0: f32[6]",)
    assert LINE in str(found)


def test_a_scatter_of_a_library_is_named_with_both_lines():
    program = jax.jit(lambda v: jax.nn.relu(jax.ops.segment_sum(v, SAME, 6)))
    found = impl.first_difference(program, jnp.asarray(SIZES), between=schedules())
    assert found.source.rpartition(":")[0].endswith("test_first_difference.py")
    assert "segment_sum" in found.library


def test_equal_runs_have_no_difference_in_any_dtype():
    def program(x, key):
        jax.debug.print("", ordered=True)
        wide = jnp.fft.fft(x), x.astype(jnp.float8_e4m3fn), x.astype(jnp.bfloat16), jnp.int4(3)
        return jax.random.split(key), wide, jnp.float32("nan") * x, sums(OTHER, x), x > 0

    args = jnp.asarray(SIZES), jax.random.key(0)
    found = impl.first_difference(program, *args, between=schedules(), marks="equations")
    assert found is None


def test_the_backward_pass_of_a_custom_derivative_is_named():
    # JAX gives the equations of a pullback the line of the call that they are the derivative of.
    line = test_the_backward_pass_of_a_custom_derivative_is_named.__code__.co_firstlineno + 3
    gradient = jax.grad(lambda x: (identity(x) * x).sum())
    found = impl.first_difference(gradient, jnp.ones(6), between=schedules())
    assert (found.primitive, found.source.rpartition(":")[2]) == ("lax.scatter_add", str(line))


def test_calls_are_coarser_marks_and_name_the_call():
    @jax.jit
    def inner(x):
        return sums(SAME, x) * 2

    @functools.partial(jax.jit, donate_argnums=0, static_argnums=1)
    def outer(x, times):
        return inner(x[::1] * times) + x

    x = jnp.asarray(SIZES)
    found = impl.first_difference(outer, x, 2, between=schedules(), marks="calls")
    assert (found.primitive, found.marks) == ("jit", "calls")
    assert found.source.endswith(f":{outer.__wrapped__.__code__.co_firstlineno + 2}")
    assert "each jitted function, loop and condition" in str(found)
    only = impl.first_difference(
        functools.partial(sums, SAME), x, between=schedules(), marks="calls"
    )
    assert only.kind == "output"
    assert not x.is_deleted()


def test_a_key_or_number_of_one_run_only_is_a_constant_and_programs_that_call_the_host_differ():
    held = {}

    def scope(value):
        return contextlib.nullcontext(held.update(value=value))

    runs = (lambda: scope(1)), (lambda: scope(2))
    key = impl.first_difference(
        lambda x: x + jax.random.normal(jax.random.key(held["value"])), 1.0, between=runs
    )
    assert key.kind == "constant"
    assert key.source.rpartition(":")[0].endswith("test_first_difference.py")
    array = impl.first_difference(
        lambda x: x + np.full(3, held["value"]), jnp.ones(3), between=runs
    )
    assert array.kind == "constant"

    def branching(x):
        return jnp.sin(x) if held["value"] == 1 else jnp.cos(x)

    program = impl.first_difference(branching, jnp.ones(3), between=runs)
    assert (program.kind, program.primitive) == ("program", "lax.sin")

    def calling(x):
        value = held["value"]
        return jax.pure_callback(lambda x: np.float32(x + value), x, x)

    called = impl.first_difference(calling, jnp.float32(1), between=runs)
    assert called.primitive == "pure_callback", "Each side is compiled with its own function."


def test_a_difference_of_the_plain_runs_alone_is_stated():
    calls = []

    def host(x):
        calls.append(0)
        return np.float32(x + len(calls) // 4)  # The fourth call is the second plain run.

    def program(x):
        return jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), x)

    found = impl.first_difference(program, jnp.float32(1))
    assert found.kind == "unmarked"
    assert "no mark does" in str(found)


def test_a_recording_is_compared_with_a_run_and_a_long_loop_is_searched_again(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("impl.programs._differences.marks._WORDS", 30)
    values, path = {"now": 0}, tmp_path / "run.npz"

    def long(x):
        def host(number):
            return np.float32(values["now"] if number == 17 else 0)

        def step(carry, number):
            return carry, jax.pure_callback(host, jax.ShapeDtypeStruct((), "float32"), number)

        return lax.scan(step, x, jnp.arange(40))[1]

    def scope(value):
        return lambda: contextlib.nullcontext(values.update(now=value))

    impl.programs.record(long, 0.0).save(path)
    loaded = impl.programs.Recording.load(path)
    assert jax.__version__ in loaded.setting
    assert impl.first_difference(long, 0.0, between=(path, loaded)) is None
    found = impl.first_difference(long, 0.0, between=(str(path), scope(1)))
    assert (found.primitive, found.exact) == ("pure_callback", False)
    assert 0 < found.iterations[0] <= 17
    assert "or later" in str(found)
    again = impl.first_difference(long, 0.0, between=(scope(1), scope(2)))
    assert (again.iterations, again.exact) == ((17,), True)
    with pytest.raises(ValueError, match="has the marks 'arithmetic', and the other run 'calls'"):
        impl.first_difference(long, 0.0, between=(loaded, None), marks="calls")


def steps(capsys):
    """Returns the steps that were printed, without the time."""
    return [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()]


def test_each_side_is_compiled_once_and_sides_of_one_text_together(monkeypatch, capsys):
    monkeypatch.setattr("impl.programs._differences.marks._WORDS", 60)
    number = {"now": 0}

    def program(x):
        def step(carry, n):
            meet = jnp.where((n == 13) & (number["now"] > 0), SAME, OTHER)
            return sums(meet, carry), n

        return lax.scan(step, x, jnp.arange(40))

    def scope(value):
        number["now"] = 1
        return impl.testing.schedule(value)

    runs = (lambda: scope(1)), (lambda: scope(3))
    found = impl.first_difference(program, jnp.asarray(SIZES), between=runs, progress=True)
    assert (found.iterations, found.exact) == ((13,), True)
    assert [line for line in steps(capsys) if "compiles" in line] == [
        f"first_difference: compiles run {n} of 2 with 2 marks" for n in (1, 2)
    ]
    number["now"] = 0
    modes = impl.deterministic(False), impl.deterministic()
    assert impl.first_difference(program, jnp.ones(6), between=modes, progress=True) is None
    assert steps(capsys) == [
        "first_difference: traces run 1 of 2",
        "first_difference: compiles run 1 of 2 with 2 marks",
        "first_difference: runs run 1 of 2",
        "first_difference: traces run 2 of 2",
        "first_difference: runs run 2 of 2",
        "first_difference: compiles run 1 of 2 without marks",
        "first_difference: runs run 1 of 2 without marks",
        "first_difference: runs run 2 of 2 without marks",
    ]
    impl.programs.record(jnp.sin, 1.0)
    assert steps(capsys) == []  # Quiet, unless stderr is a terminal.


def test_two_modes_differ_by_design_and_the_answer_says_so():
    x = jnp.linspace(0.1, 9, 5000)
    modes = impl.deterministic(False), impl.deterministic(guarantee="portable")
    found = impl.first_difference(jnp.sin, x, between=modes)
    assert found.primitive == "lax.sin"
    assert "The first run had the mode off, the second\n  the mode on (" in found.note
    assert "guarantee='portable'): their bits differ by design." in str(found)
    assert "compare one mode with itself" in str(found)
    same = impl.first_difference(sums, SAME, SIZES, between=schedules())
    assert same.note is None


def test_arithmetic_marks_what_can_round_or_race_alone():
    def program(x, index):
        moved = lax.pad(lax.rev(x, (0,)).reshape(2, 3), 0.0, [(1, 1, 0)] * 2).astype(jnp.bfloat16)
        ranks = jnp.arange(6) * 3 + jnp.argmax(moved)
        whole = jnp.zeros(6, jnp.int32).at[index].set(ranks)  # An assignment races.
        return whole, lax.cond(x[0] > 0, jnp.sin, jnp.negative, moved)

    args = jnp.asarray(SIZES), jnp.asarray(SAME)

    recording = impl.programs.record(program, *args)
    marked = [node for node in every_node(recording.nodes) if node.marked]
    assert [node.mark.primitive for node in marked if node.mark.kind == "equation"] == [
        "lax.convert_element_type",
        "lax.argmax",
        "lax.scatter",
        "lax.sin",
    ]
    every = impl.programs.record(program, *args, marks="equations")
    assert len(every.words) > 2 * len(recording.words)
    found = impl.first_difference(program, *args, between=schedules())
    assert (found.primitive, found.marks) == ("lax.scatter", "arithmetic")
    assert "compared: the outputs of each equation that can round or race" in str(found)


def test_static_donated_and_named_arguments_are_those_of_the_function():
    @functools.partial(jax.jit, donate_argnums=0, static_argnames="kind")
    def program(x, *, kind, by):
        assert kind == "sum"
        return sums(SAME, x) * by["scale"]

    x = jnp.asarray(SIZES)
    named = {"kind": "sum", "by": {"scale": jnp.float32(2)}}
    for function in (program, impl.jit(program.__wrapped__, static_argnames="kind")):
        found = impl.first_difference(function, x, **named, between=schedules())
        assert found.source.endswith(LINE)
        recording = impl.programs.record(function, x, **named)
        assert recording.nodes[0].mark.outputs == ("argument 0", "argument 'by'['scale']")
    assert not x.is_deleted()


def test_what_pmap_maps_is_entered():
    mapped = jax.pmap(
        lambda x, times: lax.psum(sums(SAME, x) * times, "i"),
        "i",
        donate_argnums=0,
        static_broadcasted_argnums=1,
    )
    x = jnp.asarray(SIZES)[None]
    found = impl.first_difference(mapped, x, 2, between=schedules())
    assert (found.primitive, found.inside) == ("lax.scatter_add", ("shard_map",))
    assert found.source.endswith(LINE)
    assert impl.first_difference(mapped, x, 2) is None
    impl.programs.record(mapped, x, 2)
    assert not x.is_deleted()


class Model:
    """A model that is not a tree of arrays: it counts its calls, as a model of Flax may."""

    def __init__(self):
        self.calls = jnp.zeros(())


class Wrapper:
    """A wrapper of ``jax.jit`` as a library makes it, such as ``nnx.jit``.

    Its ``__wrapped__`` cannot be called with its arguments, and ``trace`` returns no trace of JAX.
    """

    def __init__(self):
        self._jitted = jax.jit(lambda calls, x: (calls + 1, sums(SAME, x)))
        self.__wrapped__ = None

    def trace(self, *_):
        return object()

    lower = trace

    def __call__(self, model, x):
        model.calls, total = self._jitted(model.calls, x)
        return total


def test_a_wrapper_of_jit_is_called_with_a_copy_of_what_it_changes():
    model, x = Model(), jnp.asarray(SIZES)
    found = impl.first_difference(Wrapper(), model, x, between=schedules())
    assert found.source.endswith(LINE)
    assert impl.programs.record(Wrapper(), model, x).outputs.size == 1
    assert isinstance(model.calls, jax.Array)
    assert not isinstance(model.calls, jax.core.Tracer)
    assert model.calls == 0


def test_state_that_a_function_changes_is_an_output_and_arguments_are_compared():
    recording = impl.programs.record(jnp.sin, jnp.zeros(3))
    found = impl.first_difference(jnp.sin, jnp.ones(3), between=(recording, None))
    assert (found.kind, found.outputs) == ("argument", ("argument 0",))

    def program(state, x):
        state["total"] = sums(SAME, x)

    state = {"total": jnp.zeros(6), "kept": jnp.ones(3)}
    assert impl.programs.record(program, state, jnp.asarray(SIZES)).outputs.size == 1
    assert not state["total"].any()


def test_sharded_arrays_are_compared():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    spec = jax.P("x", None)

    def program(x):
        local = jax.shard_map(
            lambda v: jax.lax.psum(v.sum(), "x"), in_specs=spec, out_specs=jax.P()
        )
        return jnp.tanh(x) + local(x), sums(SAME, SIZES)

    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.ones((4, 2)), jax.NamedSharding(mesh, spec))
        found = impl.first_difference(program, x, between=schedules())
    assert found.source.endswith(LINE)


def test_bad_arguments_are_named():
    for given, message in (
        ({"between": (None,)}, "'between' must have two runs"),
        ({"marks": "all"}, "'marks' got 'all'; allowed: 'arithmetic', 'equations', 'calls'"),
    ):
        with pytest.raises(ValueError, match=message):
            impl.first_difference(jnp.sin, 1.0, **given)
    for function, argument, given, message in (
        (jnp.sin, 1.0, {"between": (None, 3)}, "devices, recordings and None, not int"),
        (jnp.sin, 1.0, {"between": None}, "'between' must be a tuple of two runs, not NoneType"),
        (jnp.sin, 1.0, {"between": impl.deterministic()}, "a tuple of two runs, not Scope"),
        (3, 1.0, {}, "'function' must be callable, not int"),
        (jnp.sin, jax.ShapeDtypeStruct((2,), "float32"), {}, "audited, not run. Pass arrays"),
    ):
        with pytest.raises(TypeError, match=message):
            impl.first_difference(function, argument, **given)


def test_texts_among_the_arguments_are_constants_and_a_run_may_name_a_device():
    device = jax.devices()[0]
    assert impl.first_difference(jnp.cos, jnp.ones(3), between=(device, device)) is None
    names = np.array(["a", "b"])
    assert impl.first_difference(lambda x, names: x * len(names), jnp.ones(3), names) is None
    assert impl.audit(lambda x, names: x * len(names))(jnp.ones(3), names).ok


def test_a_terminal_shows_the_step_of_a_long_call_and_those_that_follow(monkeypatch, capsys):
    def printed(shown):
        with first_difference.Progress("record", shown) as progress:
            progress.step("traces")
        return capsys.readouterr().err

    assert printed(True) == "record: traces (0 s)\n"
    assert printed(False) == printed(None) == ""  # The stderr of a test is no terminal.
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert printed(None) == ""
    monkeypatch.setattr(first_difference, "PATIENCE", 0.01)
    with first_difference.Progress("record", None) as progress:
        time.sleep(0.02)  # The timer and the step both find the call long.
        progress.step("compiles")
        progress._later.join()
        progress.step("runs")
    assert capsys.readouterr().err == "record: compiles (0 s)\nrecord: runs (0 s)\n"


def test_arrays_with_other_bits_have_other_digests():
    quiet, payload = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    groups = [
        [jnp.float32(0.0), jnp.float32(-0.0), jnp.float32(1e-45), quiet, payload],
        [jnp.array([1.0, 2.0]), jnp.array([2.0, 1.0]), jnp.array([1.0, 1.0])],
        [jnp.array([[1, 2], [3, 4]]), jnp.array([[1, 3], [2, 4]])],
        [jnp.array([True, False]), jnp.array([False, True])],
        [jnp.array([1 + 2j]), jnp.array([2 + 1j]), jnp.array([1 + 0j])],
        [jnp.bfloat16(1), jnp.bfloat16(1.0078125)],
        [jnp.array([1, 2], jnp.int4), jnp.array([2, 1], jnp.int4)],
        [jax.random.split(jax.random.key(0)), jax.random.split(jax.random.key(1))],
    ]
    flat = [value for group in groups for value in group]
    words = np.asarray(jax.jit(lambda *values: jnp.stack(digests(values)))(*flat))
    for group in groups:
        mine, words = words[: len(group)], words[len(group) :]
        assert len({bytes(word) for word in mine}) == len(group), group
        assert all(len(set(column.tolist())) == len(group) for column in mine.T), group
    # A value without elements has a digest too.
    assert [word.shape for word in digests([jnp.zeros((0, 3)), 1.5])] == [(1,), (1,)]


def test_a_program_evaluated_with_digests_has_the_values_of_the_plain_one():
    def grow(x):
        return jax.lax.while_loop(lambda v: v < 10, lambda v: v * 3, x)

    def program(x):
        stacked = jax.lax.scan(lambda c, v: (c * v, c + v), 1.0, x, reverse=True)
        chosen = jax.vmap(lambda v: jax.lax.cond(v > 2, jnp.negative, jnp.abs, v))(x)
        one = jax.lax.cond(x[0] > 2, jnp.sum, jnp.max, x)
        return jax.vmap(grow)(x), grow(x[0]), stacked, chosen, one

    x = jnp.array([1.0, 2.0, 4.0, 20.0])
    closed = jax.make_jaxpr(program)(x)
    nodes = Planner("equations", {}).nodes(closed)
    outputs, words = jax.jit(lambda x: evaluate(closed, [x], nodes, windows(nodes)))(x)
    expected = jax.tree.leaves(program(x))
    assert [out.tolist() for out in outputs] == [out.tolist() for out in expected]
    assert sum(part.size for part in words) == sum(node.words for node in nodes)
