"""The parser of optimised programs."""

from conformance.lab.compiled import hlo_program
from conformance.tests.lab.compiled.programs import CUB_SORT, LOOP


def test_an_instruction_has_its_operands_and_its_attributes():
    program = hlo_program.parse(LOOP)
    loop = program.instruction("main", "loop")
    assert (program.entry, loop.opcode, loop.operands) == ("main", "while", ("state",))
    assert (loop.attribute("body"), loop.scope) == ("body", "jit(f)/while")
    assert program.root("body").operands == ("next_i", "next", "e")
    assert program.instruction("body", "next").calls == "fused"
    assert program.parameter("fused_less", 1).name == "q"
    assert [user.name for user in program.users("body", "x")] == ["next"]


def test_a_part_of_a_result_has_the_size_of_the_part():
    program = hlo_program.parse(CUB_SORT)
    _, part = program.root("main").operands
    assert program.instruction("main", part).bytes == 4_000_000


def test_the_bytes_of_a_type_are_those_of_all_its_arrays():
    assert hlo_program.size("(f32[2,3]{1,0}, (pred[5], bf16[]), s4[8])") == 24 + 5 + 2 + 8
    assert hlo_program.elements("(f32[2,3]{1,0}, (pred[5], bf16[]))") == [
        "f32[2,3]{1,0}",
        "(pred[5], bf16[])",
    ]
