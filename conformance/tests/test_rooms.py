"""The packages of ``conformance`` import in one direction."""

from pathlib import Path

import conformance
from impl.tests.support import rooms


def test_the_packages_import_in_one_direction():
    imports = rooms.imports_between(Path(conformance.__file__).parent, {"tests"})
    assert "adapters" in imports["cases"]
    assert rooms.circle(imports) == []
