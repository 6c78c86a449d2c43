"""The text of compiled programs."""

# Shortened from the output of jaxlib 0.11.2 for `x.at[i].add(s)`, for an H200.
HLO = """\
%region_0.2 (a.1: f32[], b.1: f32[]) -> f32[] {{
  %a.1 = f32[] parameter(0), metadata={{op_name="scatter-add"}}
  %b.1 = f32[] parameter(1), metadata={{op_name="scatter-add"}}
  ROOT %out.1 = {root}
}}

%fused_scatter (param_0: {type}[8,5], param_1: s32[9,1]) -> {type}[8,5] {{
  %param_0 = {type}[8,5]{{1,0}} parameter(0)
  ROOT %scatter.1 = {type}[8,5]{{1,0}} scatter(%param_0, %param_1, %param_2), \
update_window_dims={{1,2}}, inserted_window_dims={{}}, index_vector_dim=1, {unique}\
to_apply=%region_0.2, metadata={{op_name="jit(f)/scatter-add"}}
}}

ENTRY %main.4 (x.1: {type}[8,5], i.1: s32[100]) -> {type}[8,5] {{
  ROOT %input_scatter_fusion = {type}[8,5]{{1,0}} fusion(%x.1, %i.1), kind=kInput, \
calls=%fused_scatter
}}
"""
ADD, SECOND = "f32[] add(%a.1, %b.1)", "f32[] parameter(1)"
MAXIMUM = "f32[] maximum(%a.1, %b.1)"


def scatter(root, type="f32", unique=""):
    return HLO.format(root=root, type=type, unique=unique)


def hlo_instruction(opcode, type="f32", scope=""):
    """Returns the text of one instruction, with the metadata that XLA writes."""
    metadata = f'metadata={{op_name="jit(f)/{scope}{opcode}" stack_frame_id=12}}'
    return f"  %one.1 = {type}[9]{{0}} {opcode}(%a.1, %b.1), {metadata}\n"


PTX = """\
.version 9.0
.target sm_90a
.address_size 64

	// .globl	scatter_add_atomic
.visible .entry scatter_add_atomic(
	.param .u64 .ptr .global .align 1 scatter_add_atomic_param_0
)
.reqntid 128
{{
	ld.shared.b32 	%r1, [%rd1];
	st.shared.v2.b32 	[%rd5+2], {{%r6, %r7}};
	redux.sync.add.s32 	%r8, %r7, 0xffffffff;
	{instruction}
	ret;
}}
"""
ATOMIC = "atom.global.gpu.acq_rel.add.f32 %r3, [ %rd4 + 0 ], %r5;"
