"""The record of programs that are compiled, and the verdicts on them.

Tests: impl._core.jax_internals.watching.
"""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl import programs
from impl.diagnosis import _programs

HERE = "impl/tests/diagnosis/test_programs.py"
X, INDEX = np.ones(9, np.float32), np.zeros(9, np.int32)


def add(x, i):
    return jnp.zeros(4).at[i].add(x)


def recorded(run):
    recorder = _programs.Recorder()
    with recorder.watched():
        run()
    return recorder.programs


def verdicts(judged):
    return {(f.primitive, f.verdict): f.source.rpartition(":")[0] for f, _ in judged.findings}


def test_a_scatter_counts_by_the_mode_that_its_program_was_compiled_with():
    impl.use_deterministic_algorithms(True, profile="complete")

    def run():
        jax.jit(add)(X, INDEX)
        with impl.deterministic(False):
            jax.jit(add)(X, INDEX)

    on, off = recorded(run)
    assert (on.mode.enabled, off.mode.enabled) == (True, False)
    judged = _programs.judged([on], "cuda")
    assert verdicts(judged) == {("lax.scatter_add", "deterministic"): HERE}
    assert (judged.off, judged.off_varies) == ({}, False)
    judged = _programs.judged([on, off], "cuda")
    assert ("lax.scatter_add", "varies") in verdicts(judged)
    assert (list(judged.off), judged.off_varies) == ([f"add ({off.line})"], True)
    assert (judged.functions, judged.operations) == (2, 0)
    assert not _programs.judged([on, off], "cpu").findings


def test_a_program_whose_primitives_are_left_to_jax_counts_as_off():
    impl.use_deterministic_algorithms(True, profile="complete")

    def both(x, i):
        return add(x, i) + impl.index_add(jnp.zeros(4), 0, i, x)

    programs.disable()
    try:
        (program,) = recorded(lambda: jax.jit(both)(X, INDEX))
    finally:
        programs.enable()
    # A function of impl that races there raises.
    assert set(verdicts(_programs.judged([program], "cuda"))) == {
        ("lax.scatter_add", "varies"),
        ("index_add", "raises"),
    }


def test_an_operation_with_a_function_of_the_user_inside_is_no_function():
    def run():
        jnp.zeros(4).at[jnp.asarray(INDEX)].apply(lambda x: x + 1)

    assert _programs.judged(recorded(run), "cuda").functions == 0


def test_operations_outside_of_jit_have_the_line_that_calls_them():
    def run():
        jnp.zeros((5, 7)).at[jnp.asarray(INDEX)].add(2.5)

    judged = _programs.judged(recorded(run), "cuda")
    assert judged.functions == 0
    assert judged.operations > 0
    assert verdicts(judged) == {("lax.scatter_add", "varies"): HERE}
    assert list(judged.off) == [""]


def test_programs_of_threads_of_pmap_of_shard_map_and_ahead_of_time_are_recorded():
    mesh = jax.make_mesh((1,), ("d",))
    parts = jax.sharding.PartitionSpec()

    def run():
        thread = threading.Thread(target=lambda: jax.jit(lambda x: x * 3)(X))
        thread.start()
        thread.join()
        jax.pmap(lambda x: x * 4)(X[None])
        jax.jit(jax.shard_map(lambda x: x * 5, mesh=mesh, in_specs=parts, out_specs=parts))(X)
        jax.jit(lambda x: x * 6).lower(X).compile()

    found = [p for p in recorded(run) if not p.is_operation]
    assert len(found) == 4
    assert all(p.line.startswith(HERE) for p in found)


def test_a_program_that_cannot_be_read_is_named(monkeypatch):
    def fail(*_):
        raise KeyError("odd")

    found = recorded(lambda: jax.jit(lambda x: x * 7)(X))
    monkeypatch.setattr(_programs, "audited", fail)
    judged = _programs.judged(found, "cuda")
    assert list(judged.unread.values()) == ["KeyError: 'odd'"]


def test_a_pause_keeps_nothing_and_calls_as_usual():
    recorder = _programs.Recorder()
    seen = []

    def called(call):
        seen.append([name for name, _ in call.arguments])
        return call.run()

    twice = jax.jit(lambda x, unread: x * 8 + unread.shape[0])
    with recorder.watched(called):
        twice(X, INDEX)
        twice(X, INDEX)
        compiled = jax.jit(lambda y: y * 9).lower(X).compile()
        compiled(X)
        compiled(X)
        with recorder.paused():
            twice(X, INDEX)
            jax.jit(lambda x: x * 10)(X)
    assert seen == [["x"], ["x"], ["y"], ["y"]]
    assert len(recorder.programs) == 2
    np.testing.assert_array_equal(twice(X, INDEX), X * 8 + 9)
    assert len(seen) == 4


def test_a_release_of_jax_without_the_hook_is_an_error(monkeypatch):
    from jax._src.interpreters import pxla  # noqa: PLC0415  # The hook.

    monkeypatch.delattr(pxla, "lower_sharding_computation")
    with (
        pytest.raises(LookupError, match="lowers programs elsewhere"),
        _programs.Recorder().watched(),
    ):
        pass
