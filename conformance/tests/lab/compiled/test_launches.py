"""The launches and bytes of an optimised program, by its text."""

from conformance.lab.compiled.launches import Cost, cost_of

#: A loop that negates eight floats in each of five rounds, and a call of a library after it.
LOOP = """
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
  %loop = (s32[], f32[8]{0}) while(%state), condition=%condition, body=%body, \
metadata={op_name="jit(f)/while"}, backend_config={"known_trip_count":{"n":"5"}}
  %last = f32[8]{0} get-tuple-element(%loop), index=1
  %call = pred[2]{0} custom-call(%y, %last), custom_call_target="library"
  ROOT %result = (f32[8]{0}, pred[2]{0}) tuple(%last, %call)
}
"""
NEGATED, COMPARED, LIBRARY = Cost(1, 32 + 32), Cost(1, 4 + 4 + 1), Cost(1, 12 + 32 + 2)
#: The same with a conditional, whose second branch is the condition.
CHOICE = LOOP.replace(
    "while(%state), condition=%condition, body=%body", "conditional(%zero, %state)"
).replace('backend_config={"known', "branch_computations={%body, %condition}, b={")


def test_a_loop_counts_in_each_round_and_a_fusion_is_one_launch():
    assert cost_of(LOOP) == (NEGATED + COMPARED) * 5 + LIBRARY


def test_a_loop_of_unknown_length_counts_as_if_it_ran_no_round():
    assert cost_of(LOOP.replace("known_trip_count", "unknown")) == COMPARED + LIBRARY


def test_the_shortest_branch_counts():
    assert cost_of(CHOICE) == COMPARED + LIBRARY
    assert cost_of(CHOICE.replace("{%body, %condition}", "{%body}")) == NEGATED + LIBRARY


def test_what_is_started_and_awaited_counts_once():
    text = LOOP.replace(
        "%call = pred[2]{0} custom-call(%y, %last)",
        "%begun = ((bf16[2,3]{1,0}, f32[8]{0}), pred[2]{0}, u32[]) custom-call-start(%y, %last)\n"
        "  %call = pred[2]{0} custom-call-done(%begun)",
    )
    assert text != LOOP
    assert cost_of(text) == cost_of(LOOP)
