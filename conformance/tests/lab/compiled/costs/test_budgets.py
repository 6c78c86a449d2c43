"""Budgets, on programs that were compiled before."""

import dataclasses
from pathlib import Path

import pytest

from conformance.lab.compiled import assembler
from conformance.lab.compiled.costs import budgets, measured
from conformance.lab.compiled.costs.budgets import Excess
from conformance.lab.compiled.costs.case import Budget, CostCase
from conformance.lab.compiled.costs.measured import CaseCost
from conformance.lab.compiled.device_programs import DeviceProgram, Dimensions
from conformance.lab.compiled.hlo_costs import Cost, Launch
from conformance.tests.lab.compiled.programs import CUB_SORT, LOOP

#: The program of ``LOOP`` without its loop, as it would be after the loop was removed.
STRAIGHT = """
ENTRY %main (x: f32[8], e: f32[]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %e = f32[] parameter(1)
  ROOT %next = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
}
"""
#: As ``STRAIGHT``, with a copy that nothing needs.
COPIED = STRAIGHT.replace("fusion(%x)", "fusion(%again)").replace(
    "  ROOT", "  %again = f32[8]{0} copy(%x)\n  ROOT"
)
FUSED = LOOP[LOOP.index("%fused (p") : LOOP.index("%body (")]
CASE = CostCase("f-8", "f", "forward", lambda x: x, ())


def cost(on, **others):
    sides = {
        side: measured.cost_of(DeviceProgram(FUSED + text, {}, {}, with_cub=False), {})
        for side, text in {"on": on, **others}.items()
    }
    return CaseCost("f-8", "h200", sides, {}, 0.0)


def failures(on, budget, known=(), **others):
    case = dataclasses.replace(CASE, budget=budget)
    return list(budgets.failures(case, cost(on, **others), known))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(launches=2), "61 launches, and the budget is 2"),
        (Budget(floors=2), "23.94 bytes, in floors, and the budget is 2"),
        (Budget(rounds=0), "20 rounds of loops, and the budget is 0"),
    ],
)
def test_a_loop_that_is_put_back_exceeds_the_budget(budget, words):
    assert failures(STRAIGHT, budget) == []
    (failure,) = failures(LOOP.replace(FUSED, ""), budget)
    lines = failure.splitlines()
    assert lines[0] == f"f-8 for h200, the mode on: {words}"
    greatest = "next, kernel, XLA's own" if budget.launches is None else "20 launches: less"
    assert greatest in lines[2] if budget.rounds is None else "20 launches" in lines[2]
    assert "python -m conformance costs --explain f-8" in failure


def test_a_needless_copy_exceeds_the_budget():
    budget = Budget(launches=1, floors=1)
    assert failures(STRAIGHT, budget) == []
    launches, moved = failures(COPIED, budget)
    assert "2 launches, and the budget is 1" in launches
    assert "again, copy" in launches
    assert "2.00 bytes, in floors" in moved


def test_the_mode_off_may_cost_no_more_than_plain_jax():
    assert failures(LOOP.replace(FUSED, ""), Budget(), off=STRAIGHT, plain=STRAIGHT) == []
    (failure,) = failures(STRAIGHT, Budget(), off=COPIED, plain=STRAIGHT)
    assert failure.startswith("f-8 for h200, the mode off: 2.00 of the estimated time of plain JAX")


def test_a_kernel_that_spills_exceeds_the_budget():
    launch = Launch("call", "Pallas", Cost(1, 64), note="scan_ordered_tiles")
    kernels = [measured.Kernel(registers=32, spilled=number) for number in (0, None, 3064)]
    side = dataclasses.replace(cost(STRAIGHT).sides["on"], parts=((launch, kernels[0]),))
    one = CaseCost("f-8", "h200", {"on": side}, {}, 0.0)
    assert list(budgets.failures(CASE, one, ())) == []
    side = dataclasses.replace(side, parts=tuple((launch, kernel) for kernel in kernels))
    one = dataclasses.replace(one, sides={"on": side})
    (failure,) = budgets.failures(CASE, one, ())
    assert "3,064 bytes that a thread spills, and the budget is 0" in failure
    assert "3,064 bytes, 32 registers: scan_ordered_tiles" in failure
    assert list(budgets.failures(CASE, one, [Excess("f-8", "spilled", "a reason", 3064)])) == []
    assert len(list(budgets.failures(CASE, one, [Excess("f-8", "spilled", "a", 3000)]))) == 1


def test_of_kernels_of_one_name_the_one_that_spills_counts(monkeypatch):
    call = """
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %call = f32[8]{0} custom-call(%x), custom_call_target="__gpu$xla.gpu.triton", \
backend_config={name = "scan", grid_x = 1 : i32, num_warps = 4 : i32}
}
"""
    names = ("scan", "scan_1", "scan_2", "scanned")
    codes = {name: f".visible .entry {name}(\n)\n{{\n}}\n" for name in names}
    spilled = dict(zip(codes.values(), (0, 472, 900, 900), strict=True))
    monkeypatch.setattr(measured.assembler, "find_assembler", lambda: Path("ptxas"))
    monkeypatch.setattr(
        measured.assembler,
        "kernel_resources",
        lambda text, _: assembler.Resources(32, spilled[text]),
    )
    # Another number of programs, or another name, tells kernels apart.
    sizes = {name: Dimensions(1 + (name == "scan_2"), 4, 0) for name in names}
    program = DeviceProgram(call, codes, sizes, with_cub=False)
    assert measured.cost_of(program, {}, assembled=True).spilled == 472


def test_a_kernel_loads_at_most_twice_what_the_library_does_for_each_product():
    case = dataclasses.replace(CASE, budget=Budget(loads=2), library=39.0)
    call = """
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %call = f32[8]{0} custom-call(%x), custom_call_target="__gpu$xla.gpu.triton", \
backend_config={name = "product", grid_x = 1 : i32, num_warps = 4 : i32}
}
"""
    code = ".visible .entry product(\n)\n{\n\tld.global.b32 %r1, [%r2];\n" + 40 * (
        "\tfma.rn.f32 %f1, %f2, %f3, %f1;\n"
    )
    program = DeviceProgram(call, {"product": code}, {"product": Dimensions(1, 4, 0)}, False)
    side = measured.cost_of(program, {})
    one = CaseCost("f-8", "h200", {"on": side}, {}, 0.0)
    assert list(budgets.failures(case, one, ())) == []
    case = dataclasses.replace(case, library=41.0)  # Ours has 20 operations for each byte.
    (failure,) = budgets.failures(case, one, ())
    assert "2.05 of the bytes that the library loads for each product" in failure


def test_a_known_excess_is_none_once_it_is_gone():
    known = [Excess("f-8", "launches", "a reason", 2), Excess("g-8", "launches", "another's", 2)]
    assert failures(COPIED, Budget(launches=1), known) == []
    (failure,) = failures(STRAIGHT, Budget(launches=1), known)
    assert "remove 'launches' of f-8 from known_excesses.toml" in failure
    case = dataclasses.replace(CASE, budget=Budget(launches=1))
    assert budgets.lowered(case, cost(STRAIGHT), known) == {("f-8", "launches"): None}
    assert budgets.lowered(case, cost(COPIED), known) == {}
    assert budgets.unknown_names(known, ["f-8"]) == [
        "known_excesses.toml: there is no case g-8; remove the entry"
    ]


def test_a_known_excess_may_not_grow():
    case = dataclasses.replace(CASE, budget=Budget(launches=1, floors=1))
    known = [Excess("f-8", "launches", "a reason", 2), Excess("f-8", "floors", "a reason", 23.9)]
    looped = LOOP.replace(FUSED, "")
    launches, moved = failures(looped, case.budget, known)
    assert "61 launches, and the budget is 1, the bound of the known excess 2" in launches
    assert "23.94 bytes, in floors, and the budget is 1, the bound of the known excess 23.9" in (
        moved
    )
    known = [Excess("f-8", "launches", "a reason", 90), Excess("f-8", "floors", "a reason", 25.0)]
    assert list(budgets.failures(case, cost(looped), known)) == []
    lowered = {("f-8", "launches"): 61, ("f-8", "floors"): 24.0}
    assert budgets.lowered(case, cost(looped), known) == lowered


def test_an_unbounded_loop_fails_without_any_budget():
    endless = LOOP.replace(FUSED, "").replace("and(%less, %far)", "or(%less, %far)")
    (failure,) = failures(endless, Budget())
    assert "nothing bounds the rounds of the loop jit(f)/while" in failure


def test_what_does_not_compile_fails():
    broken = CaseCost("f-8", "h200", {}, {"plain": "ValueError: no"}, 0.0)
    (failure,) = budgets.failures(CASE, broken, ())
    assert failure == "f-8 for h200, plain JAX: it cannot be counted: ValueError: no"


def test_the_file_of_excesses_is_read():
    cases = {"f-8": {"launches": 17, "floors": 3.3}}
    assert budgets.parse({"excess": [{"reason": "r", "cases": cases}]}) == (
        Excess("f-8", "launches", "r", 17),
        Excess("f-8", "floors", "r", 3.3),
    )
    with pytest.raises(ValueError, match="needs reason and cases"):
        budgets.parse({"excess": [{"cases": cases}]})
    with pytest.raises(ValueError, match="unknown"):
        budgets.parse({"excess": [{"reason": "r", "cases": {"f-8": {"speed": 1}}}]})
    with pytest.raises(ValueError, match="a bound is a number"):
        budgets.parse({"excess": [{"reason": "r", "cases": {"f-8": {"launches": -1}}}]})


def test_a_budget_that_is_met_loses_its_excess():
    text = """\
# About an entry `[[excess]]` of the file.

[[excess]]
reason = "A table is searched."
[excess.cases]
"f-8" = { launches = 17, floors = 3.3 }
"g-8" = { floors = 4.0 }

[[excess]]
reason = "A fold is serial."
[excess.cases]
"f-8" = { serial = 9 }
"""
    assert budgets.tightened(text, {}) == text
    gone = {("f-8", "floors"): None, ("g-8", "floors"): None, ("f-8", "serial"): None}
    assert budgets.tightened(text, gone) == (
        text[: text.index('"g-8"')].replace(", floors = 3.3", "")
    )
    assert budgets.tightened(text, {("f-8", "launches"): 16}) == text.replace("17", "16")


def test_the_sort_of_a_device_counts():
    text = CUB_SORT.replace(", calls=%wrapped_iota_computation", "")
    program = measured.cost_of(DeviceProgram(text, {}, {}, with_cub=True), {})
    assert (program.launches, program.moved) == (13, 72_000_000)
