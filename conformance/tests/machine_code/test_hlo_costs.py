"""The launches and bytes of an optimised program, by its text."""

from conformance.machine_code import hlo_costs

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


def test_the_longest_branch_counts():
    text = TEXT.replace("while(%state), condition=%condition, body=%body", "conditional(%zero, ")
    text = text.replace(', backend_config={"known', " branch_computations={%body, %condition}, b={")
    assert hlo_costs.cost(text).launches == 2
