"""Finds the samples and the promises of an op, which lie in the module of its family.

A family is a file of ``spec/rows``. Its samples are in the module of that name in
``conformance.cases``, and its promises in the module of that
name in ``conformance.promises``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import spec


@functools.cache
def families() -> Mapping[str, str]:
    """Returns the family of each op."""
    return {row.op: row.family for row in spec.load().rows}


@functools.cache
def of_family(package: str, family: str) -> Mapping[str, Any]:
    """Returns the samples or promises of a family by op. A family without a module has none.

    Args:
        package: ``cases`` or ``promises``.
        family: The name of a file in ``spec/rows``, without its suffix.
    """
    name = f"conformance.{package}.{family}"
    if importlib.util.find_spec(name) is None:
        return {}
    # A module of cases has a function `samples`, a module of promises a function `promises`.
    function = {"cases": "samples", "promises": "promises"}[package]
    entries: Mapping[str, Any] = getattr(importlib.import_module(name), function)()
    return entries
