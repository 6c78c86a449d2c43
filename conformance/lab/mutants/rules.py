"""The hunt finds within five minutes that XLA computes a primitive, as without this project.

It takes some hours, so no session runs it. An environment variable has options of the hunt::

    HUNT="--seed 7 --python OTHER/bin/python" pytest conformance/lab/mutants/rules.py -k cumsum
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import conformance.tests.hunt
from conformance import __main__ as command
from impl._portable.rules import RULES

_PLANT = Path(conformance.tests.hunt.__file__).with_name("xlas_own.py")
#: The rules that no program of a CPU shows, under the reason.
_NOT_SHOWN = {
    # It moves elements, and rounds nothing. JAX has another lowering for GPUs alone.
    "moves on a GPU": (
        *("bcoo_extract", "bcoo_fromdense", "bcoo_sort_indices", "bcoo_transpose"),
        *("bcsr_extract", "bcsr_fromdense", "coo_fromdense", "csr_fromdense"),
    ),
    # No sharding, on any release, was found that gives other bits.
    "no other bits": ("stack",),
    # Sorts by several keys alone write it, in comparators, which know no number.
    "no known operands": ("eq_to",),
}
_NAMES = {name for name, rule in RULES.items() if rule.lowers}


@pytest.mark.parametrize("name", sorted(_NAMES.difference(*_NOT_SHOWN.values())))
def test_rule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One finding ends the hunt, with the status 1."""
    monkeypatch.setenv("PRIMITIVE", name)
    arguments = ["--plant", str(_PLANT), "--minutes", "5", "--most", "1", "--shrink", "0"]
    arguments += ["--out", str(tmp_path), *os.environ.get("HUNT", "").split()]
    if command.main(["hunt", *arguments]) != 1:
        pytest.fail(f"the hunt did not find that the rule of {name} is XLA's", pytrace=False)
