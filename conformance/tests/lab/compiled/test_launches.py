"""The launches and bytes of an optimised program, by its text."""

import pytest

from conformance.lab.compiled import launches
from conformance.lab.compiled.launches import Cost
from conformance.tests.lab.compiled.optimised_programs import LOOP, PARTS, SORT
from impl._core.numerics import ANY_ORDER


def cost(text, unlikely=None):
    return launches.account_of(text, unlikely).cost


NEGATED, COMPARED, LIBRARY = Cost(1, 32 + 32), Cost(1, 4 + 4 + 1), Cost(1, 12 + 32 + 2)


def test_a_loop_counts_in_each_round_and_a_fusion_is_one_launch():
    account = launches.account_of(LOOP)
    assert account.cost == Cost(5 + 5, 5 * (64 + 9)) + LIBRARY
    assert [(each.name, each.times) for each in account.launches] == [
        ("less", 5),
        ("next", 5),
        ("call", 1),
    ]
    assert account.floor == 32 + 12 + 34


def test_a_loop_of_unknown_length_is_an_error():
    with pytest.raises(ValueError, match=r"how often the loop jit\(f\)/while runs"):
        cost(LOOP.replace("known_trip_count", "unknown"))


#: The same with a conditional, one branch of which has the scope "rare".
CHOICE = (
    LOOP.replace("while(%state), condition=%condition, body=%body", "conditional(%zero, ")
    .replace('backend_config={"known', "branch_computations={%body, %condition}, b={")
    .replace("calls=%fused", 'calls=%fused, metadata={op_name="rare"}')
)


def test_the_longest_branch_counts_and_the_predicate_is_copied():
    text = CHOICE.replace("tuple(%i, %next)", "tuple(%i, %one)").replace(
        "  ROOT %both", "  %one = f32[8]{0} copy(%next)\n  ROOT %both"
    )
    assert cost(text) == Cost(1, 4) + NEGATED + Cost(1, 64) + LIBRARY


def test_an_unlikely_branch_counts_only_without_another():
    assert cost(CHOICE, "rare") == Cost(1, 4) + COMPARED + LIBRARY
    alone = CHOICE.replace("{%body, %condition}", "{%body}")
    assert cost(alone, "rare") == Cost(1, 4) + NEGATED + LIBRARY


def test_what_computes_elements_in_doubt_counts_as_if_there_were_none():
    mark = f"frontend_attributes={{{ANY_ORDER}='bounded'}}, "
    unknown = LOOP.replace("known_trip_count", "unknown").replace("backend", mark + "backend", 1)
    assert cost(unknown) == COMPARED + Cost(1, 1) + LIBRARY
    choice = CHOICE.replace("branch_computations", mark + "branch_computations")
    longer = choice.replace("tuple(%i, %next)", "tuple(%i, %one)").replace(
        "  ROOT %both", "  %one = f32[8]{0} copy(%next)\n  ROOT %both"
    )
    assert cost(longer) == Cost(1, 4) + COMPARED + LIBRARY


def test_the_parts_of_an_operand_that_are_read_count():
    account = launches.account_of(PARTS)
    gathered, sliced, updated = (each.moved for each in account.launches)
    assert gathered == 10 * 32 + 40 + 40  # whole sectors, the indices, the result
    assert sliced == 16 + 4 + 16
    assert updated == 16 + 4 + 16
    assert account.floor == 4000 + 40 + (40 + 4000)


def test_a_launch_is_named_by_what_runs():
    (sort,) = launches.account_of(SORT).launches
    assert (sort.code, sort.cost) == ("sort", Cost(1, 4000 + 8000))
    assert launches.account_of(LOOP).launches[-1].code == "library"
    kernel = 'custom_call_target="__gpu$xla.gpu.triton", backend_config={ir = "ML", name = "fold"}'
    text = LOOP.replace('custom_call_target="library"', kernel)
    assert launches.account_of(text).launches[-1].code == "fold"


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
    (launch,) = launches.account_of(text).launches
    assert launch.moved == 10 * 32 * 2 + 40 + 40
    (launch,) = launches.account_of(text.replace("100000", "20")).launches
    assert launch.moved == 80 * 2 + 40 + 40  # no more than all of it


def test_what_is_started_and_awaited_counts_once():
    text = PARTS.replace(
        "%new = f32[1000]{0} fusion(%table, %block, %zero), kind=kLoop, calls=%updated",
        "%begun = ((f32[1000]{0}, f32[4]{0}, s32[]), f32[1000]{0}, u32[]) "
        "fusion-start(%table, %block, %zero), kind=kLoop, calls=%updated\n"
        "  %new = f32[1000]{0} fusion-done(%begun)",
    )
    assert text != PARTS
    assert cost(text) == cost(PARTS)
