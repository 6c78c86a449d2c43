"""A copy of this checkout with one mutant, for the workers of a hunt.

``conformance.lab.mutants`` has the mutants. The hunt itself runs from the checkout, and its workers
import the copy::

    python -m conformance hunt --mutant portable-sorts-not-stable
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.lab.mutants import mutant

_ROOT = Path(__file__).parents[2]
#: The packages that a worker imports.
_PACKAGES = ("spec", "impl", "conformance")


def find(name: str) -> mutant.Mutant:
    """Returns the mutant of a name.

    Raises:
        ValueError: There is no such mutant, or no checkout.
    """
    try:
        from conformance.lab.mutants import mutant  # noqa: PLC0415  # A wheel does not have it.
    except ImportError:
        raise ValueError(f"--mutant {name}: mutants need a checkout; this is a wheel") from None
    found = [each for each in mutant.read() if each.name == name]
    if not found:
        raise ValueError(
            f"--mutant {name}: no file of conformance/lab/mutants has it; name one of theirs"
        )
    return found[0]


@contextlib.contextmanager
def copy(name: str) -> Iterator[Path]:
    """Makes a temporary copy of the packages with a mutant in it, and yields its folder.

    Args:
        name: The name of the mutant.

    Raises:
        ValueError: There is no such mutant, or the checkout lacks git.
    """
    fault = find(name)
    from conformance.lab.mutants import copies  # noqa: PLC0415  # A wheel does not have it.

    with tempfile.TemporaryDirectory(prefix="hunt-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for file in copies.tracked_files(_ROOT):
            if file.startswith(_PACKAGES):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_ROOT / file, root / file)
        (root / fault.file).write_text(fault.broken_text(_ROOT), encoding="utf-8")
        yield root
