"""``impl.first_difference``: it names the equation that differs, and its iteration.

Tests: impl.programs._differences.comparison, impl.programs._differences.marked,
impl.programs._differences.recording.
"""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl.programs._differences import first_difference
from impl.tests.programs.racing import LINE, OTHER, SAME, SIZES, schedules, sums


@jax.custom_vjp
def identity(x):
    return x


identity.defvjp(lambda x: (x, None), lambda _, g: (g + sums(SAME, SIZES),))


def everything(x):
    """All forms in which an equation can stand inside another; which of them races is an input."""

    def step(carry, number):
        index = jnp.where((number == x["iteration"]) & x["in_scan"], SAME, OTHER)
        out = sums(index, carry)
        key = jax.random.split(x["key"])[0]
        return jnp.where(jnp.isnan(out), carry, carry), (key, out > 0, out.astype(jnp.bfloat16))

    carry, stacked = lax.scan(step, x["values"], jnp.arange(5), reverse=True)

    def racing(values):
        return sums(jnp.where(x["in_cond"], SAME, OTHER), values)

    chosen = lax.cond(x["iteration"] >= 0, racing, lambda v: -v, carry)

    def repeat(state):
        index = jnp.where((state[0] == x["iteration"]) & x["in_while"], SAME, OTHER)
        return state[0] + 1, sums(index, x["values"])

    last = lax.while_loop(lambda s: s[0] < 5, repeat, (0, carry))
    index = jnp.where(x["in_jit"], SAME, OTHER)
    jitted = jax.jit(lambda v: jax.nn.relu(jax.ops.segment_sum(v, index, 6)))(x["values"])
    jax.debug.print("", ordered=True)
    wide = jnp.fft.fft(x["values"]), x["values"].astype(jnp.float8_e4m3fn), jnp.int4(3)
    return stacked, chosen, last, jitted, wide, jnp.float32("nan") * jitted


def arguments(**given):
    flags = dict.fromkeys(("in_scan", "in_cond", "in_while", "in_jit"), False) | given
    x = {name: jnp.asarray(flag) for name, flag in flags.items()}
    x["iteration"] = jnp.asarray(given.get("iteration", 3))
    return x | {"values": jnp.asarray(SIZES), "key": jax.random.key(0)}


@pytest.fixture(scope="module")
def run():
    """Returns the difference of ``everything``; each of the two schedules is compiled once."""
    seed = impl.testing.Seed()
    program = first_difference.Program

    @contextlib.contextmanager
    def scope(value):
        seed.value = value
        with impl.testing.schedule(seed):
            yield

    compiled = {}

    class Once(program):
        def _executable(self, function, *arrays, text):
            if text not in compiled:
                compiled[text] = super()._executable(function, *arrays, text=text)
            return compiled[text]

        def plain(self):
            return np.zeros(
                0, np.uint32
            )  # A test below compares the plain runs of another program.

    def difference(marks="equations", **given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(first_difference, "Program", Once)
            runs = scope(1), scope(3)
            return impl.first_difference(everything, arguments(**given), between=runs, marks=marks)

    return difference


@pytest.mark.parametrize(
    ("where", "inside", "iterations"),
    [("in_scan", ("scan",), (1,)), ("in_cond", ("cond",), ()), ("in_while", ("while",), (3,))],
)
def test_a_racing_scatter_is_named_with_its_line_and_iteration(run, where, inside, iterations):
    found = run(**{where: True})
    assert found.kind == "equation"
    assert found.primitive == "lax.scatter_add"
    assert found.source.endswith(LINE)
    assert (found.inside, found.iterations, found.exact) == (inside, iterations, True)
    assert found.shapes == "f32[6] i32[6,1] f32[6]"
    assert found.outputs == ("0: f32[6]",)
    assert LINE in str(found)


def test_a_scatter_of_a_library_is_named_with_both_lines(run):
    found = run(in_jit=True)
    assert found.source.rpartition(":")[0].endswith("test_first_difference.py")
    assert "segment_sum" in found.library


def test_equal_runs_have_no_difference(run):
    assert run() is None


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


def test_a_key_or_number_of_one_run_only_is_a_constant():
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


def test_programs_that_call_the_host_are_compiled_apart():
    held = {}

    def program(x):
        value = held["value"]
        return jax.pure_callback(lambda x: np.float32(x + value), x, x)

    def scope(value):
        return lambda: contextlib.nullcontext(held.update(value=value))

    found = impl.first_difference(program, jnp.float32(1), between=(scope(1), scope(2)))
    assert found.primitive == "pure_callback"


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

    def of(node):
        return [node, *(each for part in node.inner for each in of(part))]

    recording = impl.programs.record(program, *args)
    marked = [node for whole in recording.nodes for node in of(whole) if node.marked]
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
