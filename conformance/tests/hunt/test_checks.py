"""Which answers of workers are findings, and how findings get smaller.

Tests: conformance.hunt.checks, conformance.hunt.program, conformance.hunt.shrink.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

import impl
from conformance.hunt import checks, prelude, shrink, worker
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew, Kind
from conformance.hunt.pool import Dice, Pool
from conformance.hunt.program import Aval, Equation, Input, Program, packed, unpacked
from conformance.hunt.settings import BASE, Setting, base_of
from conformance.hunt.tokens import TOKENS
from conformance.tests.hunt.examples import chain, drawn

pytestmark = pytest.mark.once
CONSTANTS = Setting("constants", 1)
SHARED = Setting("jit", 0, (1,), "shard_map", check_vma=True, specs=((("a",), ()),))
TINY = Input.of(np.array([1e-30, 0.5], np.float32))


@pytest.mark.parametrize(
    ("differing", "call"),
    [
        (lambda program, setting: setting.call == "constants" and program.inputs == (TINY,), None),
        (lambda _, setting: setting.call == "constants", "constants"),
        (lambda _, setting: setting.worker == 1, "jit"),
    ],
    ids=["near subnormal numbers", "as constants", "in another process"],
)
def test_bits_of_constants_are_a_finding_far_from_subnormal_numbers(monkeypatch, differing, call):
    def run(_, program, setting, *__, **___):
        return {"digests": ["other" if differing(program, setting) else "same"]}

    monkeypatch.setattr(Crew, "run", run)
    program = Program((TINY,), (), (0,), "none", 1)
    crew = Crew((Kind(), Kind(flags="")))
    finding, _ = checks.check(crew, program, [CONSTANTS])
    assert (finding and finding.setting.call) == call
    if finding:
        assert checks.again(crew, finding) == finding


def test_ordinary_values_are_far_from_subnormal_numbers():
    values = np.array([1e-30, -1e-45, 9.0, -0.5, -0.0, np.inf, np.nan], np.float32)
    right = np.array([1, -1, 1, -0.5, -0.0, np.inf, np.nan], np.float32)
    numbers = np.array([2**20, 0], np.int32)
    inputs = (Input.of(values, rows=True), Input.of(values + 0j), Input.of(numbers))
    reals, complexes, integers = Program(inputs, (), ()).with_ordinary_values().inputs
    assert reals == Input.of(right, rows=True)
    np.testing.assert_array_equal(complexes.values().real, right)
    assert integers == inputs[2]


def test_a_derivative_is_compared_with_the_same_constraints_on_one_device():
    program = dataclasses.replace(chain(), derivative="reverse")
    setting = Setting("nested", 1, (2, 4), "jit", constraints=((3, (("a", "b"),)),))
    alone = Setting("jit", 0, (1, 1), "jit", constraints=setting.constraints)
    assert base_of(setting, program) == alone
    assert base_of(setting, chain()) == BASE
    assert base_of(dataclasses.replace(setting, constraints=()), program) == BASE


@pytest.mark.parametrize(("hangs", "kind"), [({0}, None), ({0, 1}, "hang")])
def test_a_hang_of_the_first_workers_options_is_no_finding(monkeypatch, hangs, kind):
    def run(_, program, setting, *, plain=False):
        del program
        return {"error": "hang"} if setting.worker in hangs and not plain else {"digests": []}

    monkeypatch.setattr(Crew, "run", run)
    crew = Crew((Kind(), Kind(flags="")))
    finding = checks.of_error(crew, chain(), Setting(), {"error": "hang", "message": ""})
    assert (finding and finding.kind) == kind
    slow = Setting("integers", 1)
    assert checks.of_error(crew, chain(), slow, {"error": "hang", "message": ""}) is None


class _Here(Crew):
    """A crew in this process, whose answers a test may change."""

    def __init__(self, **changes):
        super().__init__([])
        self.changes = changes

    def ask(self, request, _=0, *, plain=False):
        mode = contextlib.nullcontext() if plain else impl.deterministic(guarantee="portable")
        with mode:
            answer = worker._answer(request)
        return answer if plain else {**answer, **self.changes}


def sum_of_rows():
    equation = Equation("sum_of_rows", (0,), {}, Aval((3,), "float32"))
    rows = Input.of(np.ones((8, 3), np.float32), rows=True)
    return Program((rows,), (equation,), (1,), "none", 1)


def refused(name):
    pool = Pool(Dice("1"), 0)
    token = TOKENS[name]
    pool.add(name, token.form(pool, token.dtypes[0], token.options))
    return pool.program(1, "none")


@pytest.mark.parametrize("name", [each.name for each in TOKENS.values() if each.refused])
def test_each_token_that_the_guarantee_refuses_is_refused_by_its_name(name):
    program = refused(name)
    assert checks.must_be_refused(program)
    assert checks.of_refusal(_Here(), program) is None


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"message": "another of float32[3] has no portable path"}, "calls_another is not refused"),
        ({"message": ""}, "calls_another is not refused"),
        ({"audit": {"ok": True}}, "the audit of calls_another: it calls the program portable"),
    ],
)
def test_a_refusal_of_another_primitive_or_of_the_audit_alone_is_a_finding(changes, detail):
    program = refused("calls_another")
    finding = checks.of_refusal(_Here(**changes), program)
    assert finding.kind == "refusal"
    assert finding.detail.startswith(detail)


def test_a_program_that_grows_with_the_square_of_its_depth_is_a_finding():
    assert checks.of_growth(_Here(), chain()) is None
    assert prelude.grows([100, 400, 1600])
    assert not prelude.grows([410, 800, 1580])
    growth = {"grows": True, "counts": "(2, 4, 8) calls have [100, 400, 1600] operations"}
    finding = checks.of_growth(_Here(growth=growth), chain())
    assert finding.detail.startswith(growth["counts"])


def test_texts_with_the_mode_off_in_a_scope_and_of_exempt_sums_are_jaxs():
    for how in ("mode", "scope", "sums"):
        assert checks.of_mode_off(_Here(), sum_of_rows(), SHARED, how) is None
    for how, changes in (("scope", {"text": "0"}), ("sums", {"sums": 4})):
        finding = checks.of_mode_off(_Here(**changes), sum_of_rows(), SHARED, how)
        assert (finding.kind, finding.mark) == ("off", how)


def test_a_derivative_that_float64_does_not_confirm_is_a_finding():
    inputs = *chain().inputs, Input.of(np.ones(4, np.float32)), Input.of(np.ones((), np.float32))
    program = dataclasses.replace(chain(), derivative="reverse", inputs=inputs)
    crew = _Here()
    assert checks.is_smooth(program)
    answer = crew.run(program, BASE, ("digests", "results"))
    assert checks.of_gradient(crew, program, answer) is None
    *others, last = answer["values"]
    answer["values"] = [*others, packed(unpacked(last) * np.float32(1.001))]
    finding = checks.of_gradient(crew, program, answer)
    assert finding.detail.startswith(f"result {len(others)} is ")
    # XLA makes |x| of sqrt(x * x) where it compiles both.
    inputs = [Input.of(np.full((4, 1), x, np.float32)) for x in (5e-26, -0.5)]
    norm = Equation("norm", (0,), {"axes": [1], "axis": 1}, Aval((4,), "float32"))
    assert checks.of_gradient(crew, Program((*inputs,), (norm,), (1,), "forward", 1)) is None


def test_an_audit_is_compared_with_the_lowered_text():
    right = {"digests": [], "audit": {"ok": True, "text": ""}, "varying": []}
    assert checks.of_audit(chain(), right) is None
    sums = ["stablehlo.reduce to tensor<f32>: sums are rounded in an order of the platform"]
    assert checks.of_audit(chain(), {**right, "varying": sums}).mark == "varying"
    wide = dataclasses.replace(chain(), inputs=(Input.of(np.ones(4)),) * 3)
    assert checks.of_audit(wide, {**right, "varying": sums}) is None
    assert checks.of_audit(wide, {**right, "varying": ["tanh: of the platform"]}) is not None
    refusal = {"ok": False, "text": "1 varies"}
    assert checks.of_audit(chain(), {**right, "audit": refusal}).mark == "refused"


def test_sums_that_the_platform_orders_are_read_from_a_lowered_text():
    arguments = [np.ones((3, 4), np.float32)]
    total = worker.varying(lambda x: x.sum(0), arguments)
    assert any("sums are rounded" in line for line in total)
    with impl.deterministic(guarantee="portable"):
        assert worker.varying(lambda x: x.sum(0), arguments) == []
        products = worker.varying(lambda x: x.at[np.array([0, 0])].multiply(x[:2]), arguments)
    assert products == []


def test_what_no_result_needs_goes_with_its_shardings():
    setting = Setting("jit", 0, (2,), "jit", specs=((("a",),), ((),), (("a",),)))
    program, setting = shrink.rebuilt(chain(), setting, outputs=(3,))
    assert [each.token for each in program.equations] == ["add"]
    assert (program.primals, program.outputs) == (2, (2,))
    assert setting.specs == ((("a",),), ((),))


def test_a_variable_becomes_an_argument():
    value = chain().inputs[0]
    program, _ = shrink.rebuilt(chain(), BASE, outputs=(5,), arguments={4: value})
    assert [each.token for each in program.equations] == ["sum"]
    assert program.inputs == (value,)


@pytest.mark.parametrize("derivative", ["none", "reverse", "forward", "mixed"])
def test_tangents_and_cotangents_follow_the_variables(derivative):
    for program in drawn(8, 60):
        if program.derivative != derivative:
            continue
        smaller, _ = shrink.rebuilt(program, BASE, outputs=program.outputs[-1:])
        seeds = [each.aval.shape for each in smaller.inputs[smaller.primals :]]
        outputs = [smaller.avals()[v].shape for v in smaller.outputs]
        if derivative in ("reverse", "mixed"):
            assert seeds[: len(outputs)] == outputs


class _Crew:
    """A stand-in for workers: every variable is four ones."""

    def run(self, program, *_, **__):
        ones = [np.ones(each.aval.shape, each.aval.dtype) for each in program.equations]
        return {"values": [packed(each) for each in ones]}


def test_a_program_shrinks_to_the_equation_at_fault(monkeypatch):
    def again(_, finding):
        tokens = [each.token for each in finding.program.equations]
        outputs = [
            finding.program.equations[v - finding.program.primals].token
            for v in finding.program.outputs
            if v >= finding.program.primals
        ]
        return finding if "mul" in tokens and outputs else None

    monkeypatch.setattr(checks, "again", again)
    setting = Setting("vmap", 1)
    finding = shrink.shrink(_Crew(), Finding("bits", chain(), setting, ""), 10.0)
    assert [each.token for each in finding.program.equations] == ["mul"]
    assert finding.setting == BASE
    assert {each.aval.shape for each in finding.program.inputs} == {(1,)}
