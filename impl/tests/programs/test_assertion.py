"""``impl.testing.assert_deterministic``: what each of its checks finds, and its message."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._mode import emulation
from impl.programs._auditing import assertion
from impl.testing import assert_deterministic

X, INDEX, UPDATES = jnp.ones(4), jnp.zeros(9, jnp.int32), jnp.linspace(0.1, 1, 9)


def add(x, updates):
    return {"moved": x * 2, "sum": x.at[INDEX].add(updates)}


def counted():
    """A program that gives other bits in each run, which no audit can see."""
    numbers = itertools.count()

    def program(x):
        return {"x": x, "n": jax.pure_callback(lambda x: x + np.float32(next(numbers)), x, x)}

    return program


def test_the_audit_comes_first_names_the_line_and_the_remedy_and_fails_over_the_unknown():
    with pytest.raises(AssertionError) as failure:
        assert_deterministic(add, X, UPDATES)
    first, advice, *_ = str(failure.value).splitlines()
    line = f"impl/tests/programs/test_assertion.py:{add.__code__.co_firstlineno + 1}"
    assert first.startswith("add is not deterministic on cuda, with the mode off: lax.scatter_add")
    assert first.endswith(f"at {line} varies from run to run.")
    assert advice.startswith("To do: Turn the mode on")
    assert str(impl.audit(add)(X, UPDATES)) in str(failure.value)
    assert_deterministic(add, X, UPDATES, device="cpu")
    assert_deterministic(add, X, UPDATES, level="off")
    with pytest.raises(AssertionError, match=r"callback at .* may vary: unknown\.\nTo do: Make"):
        assert_deterministic(counted(), X)


@pytest.mark.parametrize("level", ["audit", "repeat"])
def test_a_refused_program_fails_with_the_line_and_the_remedy(level):
    def program(x):
        return impl.cumsum(x, 0)

    with impl.deterministic(profile="torch-2.12"):
        with pytest.raises(AssertionError) as failure:
            assert_deterministic(program, X, level=level)
        report = impl.audit(program)(X)
        assert_deterministic(program, X, device="cpu", level=level)
    first, advice, *_ = str(failure.value).splitlines()
    line = f"impl/tests/programs/test_assertion.py:{program.__code__.co_firstlineno + 1}"
    assert first.startswith("program is refused on cuda, with the mode on")
    assert f" at {line} (by impl/ops/_running.py:" in first
    assert first.endswith(" raises an error.")
    assert advice.startswith("To do: Pass `profile=")
    assert str(report) in str(failure.value)
    assert not report.ok
    assert failure.value.__cause__ is failure.value.__context__ is None


def test_schedules_find_what_the_audit_was_told_to_accept():
    for accepted in ("lax.scatter_add", "R0400"):
        assert_deterministic(add, X, UPDATES, allow=[accepted], level="audit")
        found = r"its output\['sum'\] differs between schedule 0 and schedule \d \(1 of 2 outputs"
        with pytest.raises(AssertionError, match=found):
            assert_deterministic(add, X, UPDATES, allow=[accepted], level="schedules")


def test_with_the_mode_on_every_kind_of_function_passes():
    def partial(x, updates, kind):
        assert kind == "add"
        return add(x, updates)

    with impl.deterministic():
        assert_deterministic(partial, X, UPDATES, "add", schedules=3, level="schedules")
        # A donated array can be used once.
        donating = impl.jit(add, donate_argnums=0)
        assert_deterministic(donating, X, UPDATES, device="cpu", schedules=3)
        static = jax.jit(partial, static_argnames="kind")
        assert_deterministic(static, X, UPDATES, "add", device="cpu", schedules=2)
    assert float(X[0]) == 1


def test_repetition_finds_what_schedules_do_not():
    numbers = itertools.count()

    def program(x):
        x = jax.pure_callback(lambda x: x + np.float32(max(next(numbers) - 5, 0)), x, x)
        return x, jax.random.key(0)

    assert_deterministic(program, X, allow=["pure_callback"], level="schedules", schedules=5)
    with pytest.raises(
        AssertionError, match=r"output\[0\] differs between run 1 and run 2 \(1 of 2"
    ):
        assert_deterministic(program, X, allow=["pure_callback"], device="cpu")


def test_the_message_names_the_first_equation_that_differs(monkeypatch):
    asked = []

    def found(*_, between):
        asked.append(between)
        return "the sine in train.py:3"

    monkeypatch.setattr(assertion, "first_difference", found)
    with pytest.raises(AssertionError, match=r"\n\nthe sine in train.py:3$") as failure:
        assert_deterministic(counted(), X, allow=["pure_callback"])
    # No schedule holds while a person looks at the error.
    assert failure.value.__traceback__ is not None
    assert emulation.current() is None
    assert len(asked[0]) == 2
    assert None not in asked[0]
    with pytest.raises(AssertionError, match="the sine"):
        assert_deterministic(counted(), X, allow=["pure_callback"], device="cpu")
    assert asked[1] == (None, None)
    monkeypatch.setattr(assertion, "first_difference", None)
    with pytest.raises(AssertionError, match=r"(?s)output\['n'\] .* could not find"):
        assert_deterministic(counted(), X, allow=["pure_callback"])


def test_a_shape_can_be_audited_and_not_run():
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    with impl.deterministic():
        assert_deterministic(add, shape, UPDATES, level="audit")
        with pytest.raises(TypeError, match=r"ShapeDtypeStruct, .* level='audit'"):
            assert_deterministic(add, shape, UPDATES)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"schedules": 1}, ValueError, "'schedules' got 1; at least 2"),
        ({"schedules": 2.0}, TypeError, "'schedules' must be int, not float"),
        ({"level": "all"}, ValueError, "'level' got 'all'; allowed: 'off', 'audit', 'schedules'"),
        ({"device": "npu"}, ValueError, "'device' got 'npu'"),
    ],
)
def test_bad_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        assert_deterministic(add, X, UPDATES, **options)
    with pytest.raises(TypeError, match=r"assert_deterministic\(\): argument 'function' must be"):
        assert_deterministic(X)
