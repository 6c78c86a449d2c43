"""The launches and bytes of an optimised program, by its text."""

import pytest

from conformance.lab.compiled import hlo_costs
from conformance.tests.lab.compiled.programs import CUB_SORT, LOOP, PARTS, XLA_SORT

TEXT = """
HloModule m

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%p)
}

%body (state: (s32[], f32[8])) -> (s32[], f32[8]) {
  %state = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[8]{0} get-tuple-element(%state), index=1
  %next = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %both = (s32[], f32[8]{0}) tuple(%i, %next)
}

%condition (state: (s32[], f32[8])) -> pred[] {
  %state = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  ROOT %less = pred[] compare(%i, %i), direction=LT
}

ENTRY %main (x: f32[8], y: bf16[2,3]) -> (f32[8], pred[2]) {
  %x = f32[8]{0} parameter(0)
  %y = bf16[2,3]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %state = (s32[], f32[8]{0}) tuple(%zero, %x)
  %loop = (s32[], f32[8]{0}) while(%state), condition=%condition, body=%body, TIMES
  %last = f32[8]{0} get-tuple-element(%loop), index=1
  %call = pred[2]{0} custom-call(%y, %last), custom_call_target="library"
  ROOT %result = (f32[8]{0}, pred[2]{0}) tuple(%last, %call)
}
""".replace("TIMES", 'backend_config={"known_trip_count":{"n":"5"}}')


def test_a_loop_counts_in_each_round_and_a_fusion_is_one_launch():
    round_ = hlo_costs.Cost(1, 32 + 32) + hlo_costs.Cost(1, 4 + 4 + 1)
    library = hlo_costs.Cost(1, 12 + 32 + 2)
    assert hlo_costs.cost(TEXT) == round_ * 5 + library


#: The same with a conditional, one branch of which has the scope "rare".
CHOICE = (
    TEXT.replace("while(%state), condition=%condition, body=%body", "conditional(%zero, ")
    .replace(', backend_config={"known', " branch_computations={%body, %condition}, b={")
    .replace("calls=%fused", 'calls=%fused, metadata={op_name="rare"}')
)


def test_the_longest_branch_counts_and_what_chooses_is_copied():
    text = CHOICE.replace("tuple(%i, %next)", "tuple(%i, %one)").replace(
        "  ROOT %both", "  %one = f32[8]{0} copy(%next)\n  ROOT %both"
    )
    account = hlo_costs.account_of(text)
    assert account.cost.launches == 1 + 2 + 1
    (conditional,) = account.conditionals
    assert (conditional.counted.launches, [each.launches for each in conditional.others]) == (
        2,
        [1],
    )


def test_an_unlikely_branch_counts_only_without_another():
    (conditional,) = hlo_costs.account_of(CHOICE, unlikely=("rare",)).conditionals
    compared, negated = hlo_costs.Cost(1, 4 + 4 + 1), hlo_costs.Cost(1, 32 + 32)
    assert (conditional.counted, conditional.others) == (compared, (negated,))
    alone = CHOICE.replace("{%body, %condition}", "{%body}")
    assert hlo_costs.account_of(alone, unlikely=("rare",)).conditionals[0].counted == negated


def test_a_loop_of_unknown_length_is_no_silent_round():
    endless = LOOP.replace("and(%less, %far)", "or(%less, %far)")
    with pytest.raises(ValueError, match=r"jit\(f\)/while"):
        hlo_costs.cost(endless)
    (loop,) = hlo_costs.account_of(endless, {"f)/while": 9}).loops
    assert (loop.count, loop.is_exact) == (9, False)


def test_a_bound_of_a_loop_counts_as_its_rounds():
    account = hlo_costs.account_of(LOOP)
    assert [(loop.count, loop.is_exact) for loop in account.loops] == [(20, False)]
    assert account.cost.launches == 1 + 20 * 3
    assert [each.times for each in account.launches] == [1, 20, 20, 20]


def test_the_parts_of_an_operand_that_are_read_count():
    account = hlo_costs.account_of(PARTS)
    gathered, sliced, updated = (each.cost.moved for each in account.launches)
    assert gathered == 10 * 32 + 40 + 40  # whole sectors, the indices, the result
    assert sliced == 16 + 4 + 16
    assert updated == 16 + 4 + 16
    assert account.floor == 4000 + 40 + (40 + 4000)


def test_a_sort_counts_as_the_sort_that_runs():
    (iota, sort) = hlo_costs.account_of(
        CUB_SORT.replace(", calls=%wrapped_iota_computation", "")
    ).launches
    assert (iota.cost, sort.kind) == (hlo_costs.Cost(1, 4_000_000), "CUB")
    assert sort.cost == hlo_costs.Cost(12, 68_000_000)
    (own,) = hlo_costs.account_of(XLA_SORT).launches
    assert (own.kind, own.cost) == ("XLA's sort", hlo_costs.Cost(45, 45 * 16_000_000))


def test_a_kernel_of_pallas_has_its_grid_and_its_warps():
    text = TEXT.replace(
        'custom_call_target="library"',
        'custom_call_target="__gpu$xla.gpu.triton", backend_config={grid_x = 6 : i32, '
        'grid_y = 5 : i32, grid_z = 1 : i32, ir = "ML", name = "fold", num_warps = 4 : i32}',
    )
    call = hlo_costs.account_of(text).launches[-1]
    assert (call.kind, call.note, call.programs, call.warps) == ("Pallas", "fold", 30, 4)


def test_a_scatter_moves_what_it_updates():
    text = """
%fused (whole: f32[100000], at: s32[10,1], rows: f32[10]) -> f32[100000] {
  %whole = f32[100000]{0} parameter(0)
  %at = s32[10,1]{1,0} parameter(1)
  %rows = f32[10]{0} parameter(2)
  ROOT %new = f32[100000]{0} scatter(%whole, %at, %rows), update_window_dims={}, to_apply=%add
}

ENTRY %main (whole: f32[100000], at: s32[10,1], rows: f32[10]) -> f32[100000] {
  %whole = f32[100000]{0} parameter(0)
  %at = s32[10,1]{1,0} parameter(1)
  %rows = f32[10]{0} parameter(2)
  ROOT %new = f32[100000]{0} fusion(%whole, %at, %rows), kind=kInput, calls=%fused
}
"""
    (launch,) = hlo_costs.account_of(text).launches
    assert launch.cost.moved == 10 * 32 * 2 + 40 + 40
    (launch,) = hlo_costs.account_of(text.replace("100000", "20")).launches
    assert launch.cost.moved == 80 * 2 + 40 + 40  # no more than all of it


def test_what_is_started_and_awaited_counts_once():
    text = PARTS.replace(
        "%new = f32[1000]{0} fusion(%table, %block, %zero), kind=kLoop, calls=%updated",
        "%begun = ((f32[1000]{0}, f32[4]{0}, s32[]), f32[1000]{0}, u32[]) "
        "fusion-start(%table, %block, %zero), kind=kLoop, calls=%updated\n"
        "  %new = f32[1000]{0} fusion-done(%begun)",
    )
    assert text != PARTS
    assert hlo_costs.cost(text) == hlo_costs.cost(PARTS)
