"""Small optimised programs, as XLA writes them."""

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

#: One of these rounds, without a loop.
STRAIGHT = f"""
{LOOP[LOOP.index("%fused (p") : LOOP.index("%body (")]}
ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  ROOT %next = f32[8]{{0}} fusion(%x), kind=kLoop, calls=%fused
}}
"""
#: As ``STRAIGHT``, with a copy that nothing needs.
COPIED = STRAIGHT.replace("fusion(%x)", "fusion(%again)").replace(
    "  ROOT %next", "  %again = f32[8]{0} copy(%x)\n  ROOT %next"
)

#: XLA's own sort, in a fusion.
SORT = """
HloModule m

%fused_computation (param_0: u32[1000]) -> (u32[1000], s32[1000]) {
  %param_0 = u32[1000]{0} parameter(0)
  %iota = s32[1000]{0} iota(), iota_dimension=0
  ROOT %sort.11.1 = (u32[1000]{0}, s32[1000]{0}) sort(%param_0, %iota), dimensions={0}, \
to_apply=%region
}

ENTRY %main (i: u32[1000]) -> (u32[1000], s32[1000]) {
  %i = u32[1000]{0} parameter(0)
  ROOT %fusion = (u32[1000]{0}, s32[1000]{0}) fusion(%i), kind=kCustom, \
calls=%fused_computation
}
"""

#: Rows that a gather takes, a block that is updated in place, and a block that is read.
PARTS = """
HloModule m

%gathered (table: f32[1000], at: s32[10,1]) -> f32[10,1] {
  %table = f32[1000]{0} parameter(0)
  %at = s32[10,1]{1,0} parameter(1)
  %same = f32[1000]{0} bitcast(%table)
  ROOT %rows = f32[10,1]{1,0} gather(%same, %at), offset_dims={1}, slice_sizes={1}
}

%updated (whole: f32[1000], block: f32[4], at: s32[]) -> f32[1000] {
  %whole = f32[1000]{0} parameter(0)
  %block = f32[4]{0} parameter(1)
  %at = s32[] parameter(2)
  ROOT %new = f32[1000]{0} dynamic-update-slice(%whole, %block, %at)
}

ENTRY %main (table: f32[1000], at: s32[10,1], unused: f32[7]) -> (f32[10,1], f32[1000]) {
  %table = f32[1000]{0} parameter(0)
  %at = s32[10,1]{1,0} parameter(1)
  %unused = f32[7]{0} parameter(2)
  %zero = s32[] constant(0)
  %rows = f32[10,1]{1,0} fusion(%table, %at), kind=kLoop, calls=%gathered
  %block = f32[4]{0} dynamic-slice(%table, %zero), dynamic_slice_sizes={4}
  %new = f32[1000]{0} fusion(%table, %block, %zero), kind=kLoop, calls=%updated
  ROOT %both = (f32[10,1]{1,0}, f32[1000]{0}) tuple(%rows, %new)
}
"""
