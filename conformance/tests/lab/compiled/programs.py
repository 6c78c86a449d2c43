"""Small optimised programs, as XLA writes them."""

#: A loop around a fusion. ``TEST`` says how its condition ends, ``STEP`` and ``START`` its counter.
LOOP = """
HloModule m

%fused_less (p: s32[], q: f32[]) -> pred[] {
  %p = s32[] parameter(0)
  %q = f32[] parameter(1)
  %limit = s32[] constant(20)
  %least = f32[] constant(0.5)
  %less = pred[] compare(%p, %limit), direction=LT
  %far = pred[] compare(%q, %least), direction=GT
  ROOT %go = pred[] and(%less, %far)
}

%fused_add (p: s32[]) -> s32[] {
  %p = s32[] parameter(0)
  %one = s32[] constant(1)
  ROOT %sum = s32[] add(%p, %one)
}

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%p)
}

%body (state: (s32[], f32[8], f32[])) -> (s32[], f32[8], f32[]) {
  %state = (s32[], f32[8]{0}, f32[]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[8]{0} get-tuple-element(%state), index=1
  %e = f32[] get-tuple-element(%state), index=2
  %next_i = s32[] fusion(%i), kind=kLoop, calls=%fused_add
  %next = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %both = (s32[], f32[8]{0}, f32[]) tuple(%next_i, %next, %e)
}

%condition (state: (s32[], f32[8], f32[])) -> pred[] {
  %state = (s32[], f32[8]{0}, f32[]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %e = f32[] get-tuple-element(%state), index=2
  ROOT %less = pred[] fusion(%i, %e), kind=kLoop, calls=%fused_less
}

ENTRY %main (x: f32[8], e: f32[]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %e = f32[] parameter(1)
  %zero = s32[] constant(0)
  %start = s32[] copy(%zero)
  %state = (s32[], f32[8]{0}, f32[]) tuple(%start, %x, %e)
  %loop = (s32[], f32[8]{0}, f32[]) while(%state), condition=%condition, body=%body, \
metadata={op_name="jit(f)/while"}
  ROOT %last = f32[8]{0} get-tuple-element(%loop), index=1
}
"""

#: A sort that a device leaves to CUB, as XLA writes it where it can look up CUB's memory.
CUB_SORT = """
HloModule m

ENTRY %main (i: u32[1000000]) -> (u32[1000000], s32[1000000]) {
  %i = u32[1000000]{0} parameter(0)
  %wrapped_iota = s32[1000000]{0} fusion(), kind=kLoop, calls=%wrapped_iota_computation
  %sort = (u32[1000000]{0}, s32[1000000]{0}, u8[8292863]{0}) custom-call(%i, %wrapped_iota), \
custom_call_target="xla.gpu.ext.cub_sort_pairs", api_version=API_VERSION_TYPED_FFI, \
backend_config={descending = false, batch_size = 1 : i64}
  %keys = u32[1000000]{0} get-tuple-element(%sort), index=0
  ROOT %both = (u32[1000000]{0}, s32[1000000]{0}) tuple(%keys, %sort#1)
}
"""

#: The same without a device: XLA's own sort, in a fusion.
XLA_SORT = """
HloModule m

%fused_computation (param_0: u32[1000000]) -> (u32[1000000], s32[1000000]) {
  %param_0 = u32[1000000]{0} parameter(0)
  %iota = s32[1000000]{0} iota(), iota_dimension=0
  ROOT %sort.11.1 = (u32[1000000]{0}, s32[1000000]{0}) sort(%param_0, %iota), dimensions={0}, \
to_apply=%region
}

ENTRY %main (i: u32[1000000]) -> (u32[1000000], s32[1000000]) {
  %i = u32[1000000]{0} parameter(0)
  ROOT %fusion = (u32[1000000]{0}, s32[1000000]{0}) fusion(%i), kind=kCustom, \
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
