"""Raises ImportError if Python finds another package instead of one of this distribution.

``spec`` and ``impl`` are common names. A file or folder of that name next to a user's script comes
first on Python's path; its first use here would fail with an AttributeError that explains nothing.
This module runs its check when it is executed and never imports what it checks. It imports nothing
of this distribution either, since ``conformance`` executes it by its path, without ``impl``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

#: The folder that holds the packages of this distribution, in every installation of it.
_ROOT = Path(__file__).resolve().parents[1]


def _check(package: str) -> None:
    """Raises if ``import package`` would give, or has given, a package that is not ours."""
    if package in sys.modules:
        module = sys.modules[package]
        file, folders = getattr(module, "__file__", None), getattr(module, "__path__", ())
    else:
        found = importlib.util.find_spec(package)
        if found is None:
            return  # The import that follows raises an error.
        file, folders = found.origin, found.submodule_search_locations or ()
    if any(Path(folder).resolve().parent == _ROOT for folder in folders):
        return
    other = file or next(iter(folders), "a module without a file")
    raise ImportError(
        f"samebits needs its own package {package!r}, but Python finds {other} under that name. "
        "Rename that file or its folder, or start Python from another folder or as 'python -P', "
        "which leaves the folder of the script out of the path",
        name=package,
        path=file,
    )


for _package in ("spec", "impl"):
    _check(_package)
