"""The parser of optimised programs."""

from impl._reading import hlo

TEXT = """
HloModule m

FileNames
1 "train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=2 end_column=39}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

%fused (p: f32[8], q: s32[]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %q = s32[] parameter(1)
  ROOT %n = f32[8]{0} negate(%p)
}

ENTRY %main (x: f32[8]) -> (f32[2,3], (pred[5], bf16[]), s4[8]) {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/neg"}
  ROOT %z = (f32[2,3]{1,0}, (pred[5], bf16[]), s4[8]) custom-call(%y, %x), custom_call_target="t"
}
"""


def test_an_instruction_has_its_operands_and_its_attributes():
    program = hlo.parse(TEXT)
    call = program.computations["main"]["y"]
    assert (program.entry, call.opcode, call.operands) == ("main", "fusion", ("x",))
    assert (call.attribute("calls"), call.attribute("body")) == ("fused", "")
    assert (call.scope, call.target, call.parameter) == ("jit(f)/neg", "", None)
    assert [each.parameter for each in program.computations["fused"].values()] == [0, 1, None]
    assert (program.root("fused").name, program.root("main").target) == ("n", "t")
    assert program.root("absent") is None
    assert [each.name for each in program] == ["p", "q", "n", "x", "y", "z"]


def test_the_bytes_of_a_result_are_those_of_all_its_arrays():
    result = hlo.parse(TEXT).root("main")
    assert list(map(str, result.shapes)) == ["f32[2,3]", "pred[5]", "bf16[]", "s4[8]"]
    assert result.bytes == 24 + 5 + 2 + 8


def test_the_frames_of_an_instruction_start_at_the_innermost():
    frame = ("train.py", 7, "step")
    assert hlo.frames(TEXT) == {1: (frame,), 2: (frame, frame)}
