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

X, LONG, PORTABLE = jnp.ones(3), "0.01", {"guarantee": "portable"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextlib.contextmanager
def compiling(monkeypatch, value, stream, *, until=bool, seconds=0.1):
    """Makes a stream stand for stderr, and each compilation last until it has a line, or longer."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("SAMEBITS_COMPILE_NOTICE", value)

    def wait(event, _, **__):  # JAX calls it before the compilation ends.
        end = time.monotonic() + seconds * (event == "/jax/core/compile/backend_compile_duration")
        while time.monotonic() < end and not until():
            time.sleep(0.01)

    jax.monitoring.register_event_duration_secs_listener(wait)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(wait)


def program():
    """Returns a function that no other test has compiled, of five equations."""
    return lambda x: jax.jit(lambda x: jnp.sin(x) * x)(x) + jax.lax.map(lambda x: x * 2 + 1, x)


def run(function, options=None):
    with impl.deterministic(**PORTABLE):
        jax.block_until_ready(jax.jit(function, compiler_options=options)(X))


def in_scope(function):
    jax.block_until_ready(jax.jit(impl.deterministic(**PORTABLE)(function))(X))


def ahead_of_time(function):
    with impl.deterministic(**PORTABLE):
        lowered = jax.jit(function).lower(X)
    for _ in range(2):
        lowered.compile(compiler_options={"xla_cpu_enable_fast_math": False})


def in_a_thread(function):
    thread = threading.Thread(target=run, args=(jax.jit(function),))
    thread.start()
    thread.join()


@pytest.mark.parametrize("call", [ahead_of_time, in_a_thread, in_scope])
def test_a_long_compilation_is_announced_once(call, monkeypatch):
    terminal = Terminal()
    with compiling(monkeypatch, LONG, terminal, until=terminal.getvalue, seconds=20):
        call(program())
    (line,) = terminal.getvalue().splitlines()
    assert line.startswith(f"impl: JAX compiles <lambda> at {__file__}:")
    assert "(5 equations)" in line
    assert "docs/cost.md" in line


@pytest.mark.parametrize(
    ("value", "stream", "mode"),
    [
        ("", Terminal(), PORTABLE),  # It takes less than five seconds.
        ("off", Terminal(), PORTABLE),
        ("0", Terminal(), PORTABLE),
        (LONG, Terminal(), {}),
        (LONG, Terminal(), {"mode": False, **PORTABLE}),
        (LONG, io.StringIO(), PORTABLE),
        (LONG, object(), PORTABLE),
    ],
)
def test_any_other_compilation_is_silent(value, stream, mode, monkeypatch):
    with impl.deterministic(**mode), compiling(monkeypatch, value, stream):
        jax.jit(program())(X)
    assert getattr(stream, "getvalue", str)() == ""


@pytest.mark.parametrize(
    ("function", "options"),
    [(lambda x: jax.lax.approx_max_k(x, 1), {}), (jnp.sin, {"no_such_option": True})],
)
def test_an_error_ends_the_wait(function, options, monkeypatch):
    terminal = Terminal()
    with (
        compiling(monkeypatch, "0.3", terminal, seconds=0),
        pytest.raises(Exception, match=r"approx_top_k|no_such_option"),
    ):
        run(function, options)
    for each in threading.enumerate():
        if isinstance(each, threading.Timer):
            each.join(10)
    assert terminal.getvalue() == ""


def test_a_time_that_is_none_is_refused(monkeypatch):
    with (
        compiling(monkeypatch, "soon", Terminal()),
        pytest.raises(ValueError, match="is 'soon'; allowed: 'off' or a number of seconds"),
    ):
        run(program())
