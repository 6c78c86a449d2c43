"""The pytest plugin ``samebits``: its fixture, its option, and what a failure prints."""

import subprocess
import sys

import jax.numpy as jnp
import pytest

import impl
from conformance.pytest_plugin import determinism
from impl.programs._auditing import assertion

pytest_plugins = ["pytester"]

PLUGIN = "conformance.pytest_plugin.determinism"
#: An installed distribution registers the plugin as well, under its other name.
LOADED = ("-p", "no:samebits", "-p", "no:randomly", "-p", PLUGIN)
TESTS = """
import jax
import jax.numpy as jnp
import impl

INDEX, UPDATES = jnp.zeros(9, int), jnp.linspace(0.1, 1, 9)


def step(x):
    return x.at[INDEX].add(UPDATES)


def test_off(assert_deterministic):
    assert_deterministic(step, jnp.ones(4), schedules=3)


def test_on(assert_deterministic):
    with impl.deterministic():
        assert_deterministic(step, jnp.ones(4), schedules=3)


def test_allowed(assert_deterministic):
    assert_deterministic(step, jnp.ones(4), schedules=3, allow=["R0400"])
"""


@pytest.fixture(scope="module")
def _loaded_jax():
    """Runs a program as the sessions do, since JAX loads modules late and once per process.

    A session in this process forgets the modules that it was the first to import.
    """
    with impl.deterministic():
        impl.testing.assert_deterministic(lambda x: x.at[jnp.zeros(9, int)].add(1.0), jnp.ones(4))


@pytest.fixture
def session(pytester, _loaded_jax):
    pytester.makepyfile(test_step=TESTS)
    return lambda *options: pytester.runpytest_inprocess(*LOADED, *options)


def test_a_failure_names_the_finding_its_line_and_its_remedy(session):
    result = session()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*_ test_off _*",
            "step is not deterministic on cuda, *: lax.scatter_add at test_step.py:9 varies*",
            "To do: Turn the mode on*",
            "*_ test_allowed _*",
            "step is not deterministic *: its output differs between schedule 0 and *",
        ]
    )
    result.stdout.no_fnmatch_line("*_assertion.py*")
    result.stdout.no_fnmatch_line("samebits: *")
    result.stdout.no_fnmatch_line("*another exception*")


@pytest.mark.parametrize(("level", "failed"), [("off", 0), ("audit", 1), ("schedules", 2)])
def test_the_option_is_the_last_check(session, level, failed):
    result = session(f"--determinism={level}")
    result.assert_outcomes(passed=3 - failed, failed=failed)
    result.stdout.fnmatch_lines([f"samebits: --determinism={level}"])


OF_ROWS = """
import jax.numpy as jnp

ROWS = jnp.linspace(-1, 1, 12).reshape(4, 3)


def test_rows(assert_invariant):
    assert_invariant(jnp.abs, ROWS, batch=0)


def test_means(assert_invariant):
    assert_invariant(lambda x: x - x.mean(0), ROWS, batch=0)
"""


@pytest.mark.parametrize(("level", "failed"), [("repeat", 1), ("audit", 0)])
@pytest.mark.usefixtures("_loaded_jax")
def test_a_result_that_depends_on_the_batch_fails(pytester, level, failed):
    pytester.makepyfile(test_rows=OF_ROWS)
    result = pytester.runpytest_inprocess(*LOADED, f"--determinism={level}")
    result.assert_outcomes(passed=2 - failed, failed=failed)
    if failed:
        result.stdout.fnmatch_lines(
            [
                "*_ test_means _*",
                "<lambda> is not invariant in its batch, with the mode off: its output differs *",
                "test_rows.py:11: lax.reduce_sum is the first equation whose elements have *",
            ]
        )
        result.stdout.no_fnmatch_line("*invariance.py*")


def test_an_unknown_check_is_refused(session):
    result = session("--determinism=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--determinism: invalid choice: 'all'*"])


def test_the_fixture_and_the_option_are_explained(session):
    session("--help").stdout.fnmatch_lines(["deterministic programs:", "*--determinism=*"])
    session("--fixtures").stdout.fnmatch_lines(["assert_deterministic*", "assert_invariant*"])


def test_a_session_without_the_fixture_does_not_import_jax():
    code = f"import sys, {PLUGIN}; sys.exit('jax' in sys.modules or 'impl' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_levels_are_those_of_the_function():
    assert determinism._LEVELS == assertion.LEVELS
