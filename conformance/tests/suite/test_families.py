"""Each module of samples and promises is for a file of rows."""

from pathlib import Path

import pytest

import conformance
import spec
from conformance.suite.families import families, of_family

FOLDER = Path(conformance.__file__).parent


@pytest.mark.parametrize("package", ["cases", "promises"])
def test_a_module_has_the_ops_of_its_family_alone(package):
    modules = {path.stem for path in (FOLDER / package).glob("[!_]*.py")}
    assert modules <= set(families().values())
    for family in modules:
        ops = of_family(package, family)
        assert ops
        assert {families()[op] for op in ops} == {family}


def test_every_row_has_a_family():
    assert {row.op for row in spec.load().rows} <= set(families())
