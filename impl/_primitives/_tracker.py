"""The address of the project's tracker, as the metadata of the installed distribution have it.

``pyproject.toml`` is the one file that names it, as ``Issues`` under ``_project.urls``.
"""

from __future__ import annotations

import functools
from importlib import metadata

_DISTRIBUTION = "samebits"
_LABEL = "Issues"


@functools.cache
def tracker() -> str:
    """Returns the name of the tracker, with its address if the metadata have one."""
    try:
        entries = metadata.metadata(_DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # It runs from a checkout that is not installed.
        entries = []
    addresses = dict(entry.split(", ", 1) for entry in entries)
    name = f"the tracker of {_DISTRIBUTION}"
    return f"{name}, {addresses[_LABEL]}" if _LABEL in addresses else name
