"""The locks: a digest of everything that each transcribed profile lists.

A release that is out does not change any more. A profile that transcribes it changes only to
correct the transcription, and a lock lets nobody make such a change by accident. A row that is lost
or a behaviour that is flipped is found even if the rest of the spec agrees with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from spec.loader import thawed
from spec.model import Spec

_HEAD = """\
# For each profile that transcribes a release, a digest of everything that it lists. A release that
# is out does not change: if the transcription was wrong, correct it and run
# `python -m spec lock --write`.
"""


def digests(spec: Spec) -> dict[str, str]:
    """Returns the digest of each profile that transcribes a release."""
    return {name: _digest(spec, name) for name, profile in spec.profiles.items() if profile.release}


def findings(spec: Spec, locked: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the profiles that no longer list what they were locked at, and the problem."""
    for name, digest in digests(spec).items():
        if locked.get(name) != digest:
            yield (
                name,
                (
                    f"it no longer lists what {spec.profiles[name].release} does, or was never "
                    "locked; undo the change, or if it corrects the transcription, run "
                    "`python -m spec lock --write`"
                ),
            )


def write(path: Path, spec: Spec) -> None:
    """Locks every profile at what it lists now."""
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in digests(spec).items()]
    path.write_text("\n".join([_HEAD, *lines, ""]), encoding="utf-8")


def _digest(spec: Spec, profile: str) -> str:
    listed = sorted(
        json.dumps(
            [
                row.id,
                row.op,
                row.torch,
                row.device,
                row.direction,
                thawed(row.when),
                row.behaviour[profile],
                row.callers.get(profile),
            ],
            sort_keys=True,
        )
        for row in spec.select(profile=profile)
    )
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()
