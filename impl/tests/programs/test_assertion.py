"""``impl.testing.assert_deterministic``: what each of its checks finds, and its message.

The report of an audit: its verdicts, its table, and its data.

Tests: impl.programs._auditing.assertion, impl.programs._auditing.report.
"""

import dataclasses
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._mode import emulation
from impl.programs._auditing import assertion
from impl.programs._auditing.report import Finding, Report, grouped
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


def finding(verdict="varies", source="train.py:3", remedy="Turn the mode on.", **rest):
    given = {"library": None, "inside": (), "shapes": "f32[4] i32[9,1]", "row": "R0400", **rest}
    return Finding("lax.scatter_add", verdict=verdict, source=source, remedy=remedy, **given)


def report(*findings, equations=9):
    return Report("cuda", "the mode off", tuple(findings), equations)


@pytest.mark.parametrize(
    ("verdict", "ok"),
    [("varies", False), ("unknown", False), ("raises", False), ("deterministic", True)],
)
def test_a_program_is_fine_if_nothing_varies_is_unknown_or_raises(verdict, ok):
    assert report(finding(verdict)).ok is ok
    assert report(finding("deterministic"), finding(verdict)).ok is ok
    assert report().ok


def test_equal_findings_are_counted_in_the_order_of_the_program_and_selected_by_their_verdict():
    first, second, unknown = finding(source="b.py:9"), finding(source="a.py:3"), finding("unknown")
    counted = grouped([first, second, first, unknown, first])
    assert [(f.source, f.count) for f in counted[:2]] == [("b.py:9", 3), ("a.py:3", 1)]
    assert report(*counted).select("unknown") == (unknown,)
    assert report(*counted).select("raises") == ()


def test_the_table_has_what_a_person_acts_on():
    scan = finding("unknown", "train.py:12", "Run it twice.", row=None, inside=("scan", "cond"))
    text = str(
        report(
            *grouped([finding(library="flax/linen/linear.py:1194 (Embed.__call__)")] * 2),
            scan,
            finding("raises", "train.py:20", "Split it."),
            finding("deterministic", "train.py:30", None),
            finding("deterministic", "train.py:40", "Pass it.", races=False),
        )
    )
    assert text == (
        "On cuda, with the mode off:\n"
        "\n"
        "Varies from run to run (2 equations)\n"
        "  train.py:3  2 x lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      by flax/linen/linear.py:1194 (Embed.__call__)\n"
        "      To do: Turn the mode on.\n"
        "\n"
        "Unknown (1 equation)\n"
        "  train.py:12  lax.scatter_add  no row  f32[4] i32[9,1]\n"
        "      in scan > cond\n"
        "      To do: Run it twice.\n"
        "\n"
        "Raises (1 equation)\n"
        "  train.py:20  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Split it.\n"
        "\n"
        "Deterministic, because the mode is on (1 equation)\n"
        "  train.py:30  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "\n"
        "Ordered although nothing races (1 equation)\n"
        "  train.py:40  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Pass it.\n"
        "\n"
        "Of 9 equations 2 vary, 1 is unknown and 1 raises."
    )


def test_one_advice_is_given_once_and_wrapped_at_the_width():
    text = report(finding(), finding(source="a.py:1", remedy="Other."), finding(source="b.py:1"))
    assert text.text().count("To do: Turn the mode on.") == 1
    for width in (60, 100):
        lines = report(finding(remedy="word " * 40)).text(width).splitlines()
        assert max(len(line) for line in lines if "word" in line) in range(width - 5, width + 1)


MANY = tuple(
    finding("unknown", f"{file}.py:{line}", "Compile it.", row="R0458", shapes=f"f32[{line}]")
    for file, line in (("train", 9), ("train", 10), ("model", 4), ("train", 10), ("model", 2))
)


def test_many_findings_with_one_advice_are_named_by_their_lines():
    first = dataclasses.replace(MANY[0], count=6, inside=("scan",))
    other = finding("unknown", remedy="Compile it.", row=None)
    varied = report(*MANY[1:], first, other, finding(), equations=99)
    assert varied.text() == (
        "On cuda, with the mode off:\n"
        "\n"
        "Varies from run to run (1 equation)\n"
        "  train.py:3  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Turn the mode on.\n"
        "\n"
        "Unknown (11 equations)\n"
        "  10 x lax.scatter_add  R0458\n"
        "      train.py:9 (6), 10 (2), model.py:2, 4\n"
        "  1 x lax.scatter_add  no row\n"
        "      train.py:3\n"
        "      To do: Compile it.\n"
        "\n"
        "Of 99 equations 1 varies, 11 are unknown and 0 raise."
    )
    every = varied.text(every=True)
    assert all(f"{f.source:<10}" in every and f.shapes in every for f in MANY)
    assert "in scan" in every
    assert len(report(*MANY).as_dict()["findings"]) == len(MANY)
    few = report(*MANY)
    assert few.text() == few.text(every=True)


def test_the_summary_has_a_line_for_each_primitive_and_the_advice():
    product = dataclasses.replace(MANY[0], primitive="lax.dot_general", count=45)
    fine = finding("deterministic", remedy=None)
    assert report(*MANY, product, finding(), finding("raises"), fine).summary() == (
        "On cuda, with the mode off:\n"
        "  varies            1  lax.scatter_add\n"
        "      To do: Turn the mode on.\n"
        "  unknown           5  lax.scatter_add\n"
        "  unknown          45  lax.dot_general\n"
        "      To do: Compile it.\n"
        "  raises            1  lax.scatter_add\n"
        "      To do: Turn the mode on.\n"
        "  deterministic     1  lax.scatter_add\n"
        "Of 9 equations 1 varies, 50 are unknown and 1 raises."
    )


def test_a_report_without_findings_says_so():
    assert str(report()).endswith("Of 9 equations none varies, none is unknown and none raises.")
    assert "Of 1 equation none" in str(report(equations=1))
    assert str(report(finding())).endswith("Of 9 equations 1 varies, 0 are unknown and 0 raise.")
    compiled = str(Report("cpu", "the mode off", (), 3, "compiled"))
    assert compiled.splitlines()[0] == "On cpu, with the mode off, as compiled:"
    assert "Of 3 instructions none" in compiled
    noted = Report("cuda", "the mode off", (), 3, notes=("One.", "Two."))
    assert str(noted).endswith("none raises.\nOne.\nTwo.")


def test_the_report_is_data():
    data = report(finding(inside=("scan",))).as_dict()
    assert json.loads(json.dumps(data)) == data
    assert sorted(data) == [
        *("device", "engine", "equations", "findings", "level", "mode", "notes", "ok", "schema"),
    ]
    assert data["ok"] is False
    fields = {"primitive": "lax.scatter_add", "library": None, "inside": ["scan"], "count": 1}
    assert data["findings"] == [{**dataclasses.asdict(finding()), **fields}]
