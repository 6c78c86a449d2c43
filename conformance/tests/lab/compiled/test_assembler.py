"""The output of the assembler is parsed."""

import pytest

from conformance.lab.compiled import assembler
from conformance.lab.compiled.assembler import Resources

OUTPUT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fold' for 'sm_90a'
ptxas info    : Function properties for fold
    40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""


def test_registers_and_spills_are_parsed():
    assert assembler.parse_resources(OUTPUT) == Resources(registers=255, spilled=36)
    with pytest.raises(ValueError, match="neither registers nor spills"):
        assembler.parse_resources("ptxas fatal")
