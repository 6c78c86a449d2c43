"""Keeps costs in ``costs.json``, of which the site draws tables, and shows them as text.

    "index_add-1k-1M-1": {
     "floor": 8008000,
     "on": {"launches": 7, "bytes": 19112000, "sorts": 0},
     "plain": {"launches": 2, "bytes": 8016000, "sorts": 0}
    }

``floor`` is the number of bytes that any program moves: each operand read once, each result written
once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from conformance.lab.compiled.costs.counts import CaseCost
from conformance.lab.compiled.launches import Account, Launch
from conformance.reporting import report

DATA = Path(__file__).parents[1] / "costs.json"
_PLUGIN = "jax-cuda13-plugin"


def line(cost: CaseCost) -> str:
    """Returns a case in one line."""
    parts = [f"{side} {_short(cost, account)}" for side, account in cost.sides.items()]
    parts += [f"{side} cannot be counted" for side in cost.errors]
    return f"{cost.case}: {'; '.join(parts)} ({cost.seconds:.1f} s)"


def _short(cost: CaseCost, account: Account) -> str:
    total = account.cost
    floors = total.moved / max(1, cost.floor)
    return f"{total.launches} launches, {total.moved:,} bytes, {floors:.1f} floors"


def explanation(cost: CaseCost) -> Iterator[str]:
    """Yields each launch of each side of a case."""
    for side, account in cost.sides.items():
        yield f"{cost.case}, {side}: {_short(cost, account)} of {cost.floor:,} bytes"
        yield from (f"  {launch_line(launch)}" for launch in account.launches)
    for side, error in cost.errors.items():
        yield f"{cost.case}, {side}: {error}"


def launch_line(launch: Launch) -> str:
    """Returns a launch in one line."""
    count = f"{launch.cost.moved:>15,} bytes, {launch.times:>4} x"
    return f"{count} {launch.name}, {launch.code}, {launch.scope or 'made by XLA'}"


def data(cost: CaseCost) -> dict[str, Any]:
    """Returns the costs of a case as data."""
    sides = {side: side_data(account) for side, account in cost.sides.items()}
    return {"floor": cost.floor if cost.sides else 0, **sides}


def side_data(account: Account) -> dict[str, int]:
    """Returns the launches and bytes of a program, and how many of the launches are sorts."""
    total = account.cost
    sorts = sum(launch.times for launch in account.launches if launch.code == "sort")
    return {"launches": total.launches, "bytes": total.moved, "sorts": sorts}


def about(target: str) -> dict[str, str]:
    """Returns the GPU and the releases that programs are compiled for and with."""
    return {"target": target, "jax": jax.__version__, _PLUGIN: report.version(_PLUGIN)}


def write(counted: Mapping[str, Mapping[str, Any]], names: Sequence[str], target: str) -> None:
    """Writes the data of cases, and keeps what the file has of the other cases.

    Args:
        counted: The data of the cases that were counted, by their names.
        names: The names of all cases, in their order.
        target: The name of the GPU.

    Raises:
        ValueError: The file is of another compiler, and ``counted`` lacks cases.
    """
    now = about(target)
    before = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    is_same = {key: before.get(key) for key in now} == now
    if before and not is_same and set(counted) < set(names):
        raise ValueError(f"{DATA.name} is not of {now}: write all cases, without -k")
    known = {**(before.get("cases", {}) if is_same else {}), **counted}
    cases = {name: known[name] for name in names if name in known}
    DATA.write_text(text_of({**now, "cases": cases}), encoding="utf-8")


def text_of(document: Mapping[str, Any]) -> str:
    """Returns a document as JSON, with a line for each side of a case."""
    cases = ",\n".join(
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items())
        + "\n  }"
        for name, case in document["cases"].items()
    )
    head = {key: value for key, value in document.items() if key != "cases"}
    return json.dumps(head, indent=1).removesuffix("\n}") + f',\n "cases": {{\n{cases}\n }}\n}}\n'
