"""The family of each op: the file of ``spec/rows`` that has its rows.

The samples of an op are in the module of ``conformance.cases`` with the name of its family, and its
promises in that of ``conformance.promises``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import spec


@functools.cache
def families() -> Mapping[str, str]:
    """Returns the family of each op."""
    folder = Path(spec.__file__).parent / "rows"
    return {
        match[1]: file.stem
        for file in sorted(folder.glob("*.toml"))
        for match in re.finditer(r'^op\s*=\s*"(.+)"', file.read_text("utf-8"), re.MULTILINE)
    }


@functools.cache
def of_family(package: str, family: str) -> Mapping[str, Any]:
    """Returns the samples or promises of a family by op. A family without a module has none.

    Args:
        package: ``cases`` or ``promises``.
        family: The stem of a file in ``spec/rows``.
    """
    name = f"conformance.{package}.{family}"
    if importlib.util.find_spec(name) is None:
        return {}
    # The module of cases has a function `samples`, that of promises a function `promises`.
    function = {"cases": "samples", "promises": "promises"}[package]
    entries: Mapping[str, Any] = getattr(importlib.import_module(name), function)()
    return entries
