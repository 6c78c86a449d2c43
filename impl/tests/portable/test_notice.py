"""The line on the terminal about a program that JAX compiles for long."""

import contextlib
import io
import sys
import threading
import time

import jax
import jax.numpy as jnp
import pytest

import impl

#: JAX records it when XLA has compiled a program, before the compilation ends.
COMPILED = "/jax/core/compile/backend_compile_duration"
X = jnp.ones(3)
LONG = "0.01"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextlib.contextmanager
def compiling_for(done, seconds):
    """Makes each compilation last until ``done`` returns True, but at most some seconds."""

    def wait(event, _, **__):
        end = time.monotonic() + seconds * (event == COMPILED)
        while time.monotonic() < end and not done():
            time.sleep(0.01)

    jax.monitoring.register_event_duration_secs_listener(wait)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(wait)


def set_up(monkeypatch, value, stream=None):
    """Makes a stream stand for stderr. Pytest would undo it between a fixture and the test."""
    stream = stream or Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("SAMEBITS_COMPILE_NOTICE", value)
    return stream


def program():
    """A function that no other test has compiled."""

    def step(x):
        return jax.jit(lambda x: jnp.sin(x) * x)(x) + jax.lax.fori_loop(0, 3, lambda _, y: y + x, x)

    return step


def run(function):
    with impl.deterministic(guarantee="portable"):
        jax.block_until_ready(function(X))


def in_scope(function):
    jax.block_until_ready(jax.jit(impl.deterministic(guarantee="portable")(function))(X))


def ahead_of_time(function):
    with impl.deterministic(guarantee="portable"):
        lowered = jax.jit(function).lower(X)
    for _ in range(2):
        lowered.compile(compiler_options={"xla_cpu_enable_fast_math": False})


def nested(function):
    run(jax.jit(jax.vmap(jax.jit(function), axis_size=2, in_axes=None)))


def in_a_thread(function):
    thread = threading.Thread(target=run, args=(jax.jit(function),))
    thread.start()
    thread.join()


@pytest.mark.parametrize("call", [ahead_of_time, in_a_thread, in_scope, nested])
def test_a_long_compilation_is_announced_once(call, monkeypatch):
    terminal = set_up(monkeypatch, LONG)
    with compiling_for(terminal.getvalue, 20):
        call(program())
    (line,) = terminal.getvalue().splitlines()
    assert line.startswith("impl: JAX compiles step at ")
    assert f"{__file__}:" in line
    assert "equations" in line
    assert "docs/cost.md" in line


@pytest.mark.parametrize(
    ("value", "stream", "mode"),
    [
        ("", Terminal(), {"guarantee": "portable"}),  # It takes less than five seconds.
        ("off", Terminal(), {"guarantee": "portable"}),
        ("0", Terminal(), {"guarantee": "portable"}),
        (LONG, Terminal(), {"guarantee": "run_to_run"}),
        (LONG, Terminal(), {"mode": False}),
        (LONG, io.StringIO(), {"guarantee": "portable"}),
        (LONG, object(), {"guarantee": "portable"}),
    ],
)
def test_any_other_compilation_is_silent(value, stream, mode, monkeypatch):
    set_up(monkeypatch, value, stream)
    with impl.deterministic(**mode), compiling_for(lambda: False, 0.1):
        jax.jit(program())(X)
    assert getattr(stream, "getvalue", str)() == ""


@pytest.mark.parametrize(
    ("function", "options"),
    [(lambda x: jax.lax.approx_max_k(x, 1), {}), (jnp.sin, {"no_such_option": True})],
)
def test_an_error_ends_the_wait(function, options, monkeypatch):
    terminal = set_up(monkeypatch, "0.3")
    with pytest.raises(Exception, match=r"approx_top_k|no_such_option"):
        run(jax.jit(function, compiler_options=options))
    for each in threading.enumerate():
        if isinstance(each, threading.Timer):
            each.join(10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("value", ["soon", "nan", "-1", "inf"])
def test_a_time_that_is_none_is_refused(value, monkeypatch):
    set_up(monkeypatch, value)
    with pytest.raises(ValueError, match=f"{value}'; allowed: 'off' or a number of seconds"):
        run(jax.jit(program()))
