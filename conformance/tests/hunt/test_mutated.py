"""Workers import a copy with the mutant, and the checkout stays as it is.

Tests: conformance.hunt.mutated.
"""

import pytest

from conformance.hunt import mutated
from conformance.hunt.workers import ROOT, Kind

NAME = "portable-sorts-not-stable"


def test_a_copy_has_the_mutant_and_all_other_files():
    fault = mutated.find(NAME)
    with mutated.copy(NAME) as root:
        assert (root / fault.file).read_text() == fault.broken_text(ROOT)
        other = "conformance/hunt/worker.py"
        assert (root / other).read_text() == (ROOT / other).read_text()
        assert Kind(root=root).environment()["PYTHONPATH"].startswith(str(root))
    assert not root.exists()
    assert fault.find in (ROOT / fault.file).read_text()


def test_a_name_without_a_mutant_is_an_error():
    with pytest.raises(ValueError, match="--mutant nonsense: no file"):
        mutated.find("nonsense")
