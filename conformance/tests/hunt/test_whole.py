"""Oracles about a whole program: each is silent about a right one, and finds what it is for.

Tests: conformance.hunt.whole, conformance.hunt.finding.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

import impl
from conformance.hunt import prelude, source, whole, worker
from conformance.hunt.dice import Dice
from conformance.hunt.pool import Pool
from conformance.hunt.program import Aval, Equation, Input, Program, packed
from conformance.hunt.settings import BASE, Setting
from conformance.hunt.tokens import TOKENS
from conformance.tests.hunt.examples import chain

pytestmark = pytest.mark.once
SHARED = Setting("jit", 0, (1,), "shard_map", check_vma=True, specs=((("a",), ()),))


class _Here:
    """A crew in this process, whose answers a test may change."""

    def __init__(self, **changes):
        self.changes = changes

    def run(self, program, setting, asks=("digests",), *, plain=False, off=False, **further):
        exempt = further.pop("exempt", False)
        request = {
            "source": source.whole(program, setting, exempt=exempt and not plain),
            "asks": asks,
            "mode": "off" if off or plain else "portable",
            "wide": program.is_wide or "wide" in asks,
            **further,
        }
        mode = contextlib.nullcontext() if plain else impl.deterministic(guarantee="portable")
        with mode:
            answer = worker._answer(request)
        return answer if plain else {**answer, **self.changes}


def sum_of_rows():
    equation = Equation("sum_of_rows", (0,), {}, Aval((3,), "float32"))
    rows = Input.of(np.ones((8, 3), np.float32), rows=True)
    return Program((rows,), (equation,), (1,), "none", 1)


def refused(name):
    pool = Pool(Dice(1), 0)
    token = TOKENS[name]
    pool.add(name, token.form(pool, token.dtypes[0], token.options))
    return pool.program(1, "none")


@pytest.mark.parametrize("name", [each.name for each in TOKENS.values() if each.refused])
def test_each_token_that_the_guarantee_refuses_is_refused_by_its_name(name):
    program = refused(name)
    assert whole.must_be_refused(program)
    assert whole.of_refusal(_Here(), program) is None


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
    finding = whole.of_refusal(_Here(**changes), program)
    assert finding.kind == "refusal"
    assert finding.detail.startswith(detail)


def test_a_program_that_grows_with_the_square_of_its_depth_is_a_finding():
    assert whole.of_growth(_Here(), chain()) is None
    assert prelude.grows([100, 400, 1600])
    assert not prelude.grows([410, 800, 1580])
    growth = {"grows": True, "counts": "(2, 4, 8) calls have [100, 400, 1600] operations"}
    finding = whole.of_growth(_Here(growth=growth), chain())
    assert finding.detail.startswith(growth["counts"])


def test_texts_with_the_mode_off_in_a_scope_and_of_exempt_sums_are_jaxs():
    for how in ("mode", "scope", "sums"):
        assert whole.of_mode_off(_Here(), sum_of_rows(), SHARED, how) is None
    for how, changes in (("scope", {"text": "0"}), ("sums", {"sums": 4})):
        finding = whole.of_mode_off(_Here(**changes), sum_of_rows(), SHARED, how)
        assert (finding.kind, finding.mark) == ("off", how)


def test_a_derivative_that_float64_does_not_confirm_is_a_finding():
    program = dataclasses.replace(chain(), derivative="reverse")
    ones = [np.ones(4, np.float32), np.ones((), np.float32)]
    program = dataclasses.replace(program, inputs=(*program.inputs, *map(Input.of, ones)))
    crew = _Here()
    assert whole.is_smooth(program)
    answer = crew.run(program, BASE, ("digests", "results"))
    assert whole.of_gradient(crew, program, answer) is None
    number = len(answer["values"]) - 1
    values = [*map(whole.unpacked, answer["values"])]
    values[number] = values[number] * np.float32(1.001)
    answer["values"] = [*map(packed, values)]
    finding = whole.of_gradient(crew, program, answer)
    assert finding.detail.startswith(f"result {number} is ")


def test_an_audit_is_compared_with_the_lowered_text():
    right = {"digests": [], "audit": {"ok": True, "text": ""}, "varying": []}
    assert whole.of_audit(chain(), right) is None
    sums = ["stablehlo.reduce to tensor<f32>: sums are rounded in an order of the platform"]
    assert whole.of_audit(chain(), {**right, "varying": sums}).mark == "varying"
    refusal = {"ok": False, "text": "1 varies"}
    assert whole.of_audit(chain(), {**right, "audit": refusal}).mark == "refused"


def test_sums_that_the_platform_orders_are_read_from_a_lowered_text():
    arguments = [np.ones((3, 4), np.float32)]
    total = worker.varying(lambda x: x.sum(0), arguments)
    assert any("sums are rounded" in line for line in total)
    with impl.deterministic(guarantee="portable"):
        assert worker.varying(lambda x: x.sum(0), arguments) == []
        products = worker.varying(lambda x: x.at[np.array([0, 0])].multiply(x[:2]), arguments)
    assert products == []
