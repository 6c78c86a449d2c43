"""What in this process and on this machine can change bits: ``impl.doctor``."""

from __future__ import annotations

import os

from impl.diagnosis import _environment, _program, _settings
from impl.diagnosis._report import Item as Item
from impl.diagnosis._report import Report as Report


def doctor() -> Report:
    """Looks at everything known to change bits, and gives each a verdict.

    The verdict is ``fixed``, ``varies per process`` (two runs here may differ because of it) or
    ``varies per machine`` (two machines with this installation and environment may). It speaks of
    the process that calls: the mode, switches and seeds are those that hold here and now. JAX's
    backend is started where it has not been. Where ``XLA_FLAGS`` is set, another process tries
    whether XLA takes them, since it aborts where it does not.

    Nothing is raised over a broken environment: that is reported.

    Returns:
        The report: ``varying`` has what can be remedied, ``as_dict()`` is plain data, and as text
        it is a table.
    """
    found = _environment.found()
    refused = _environment.refusal()
    platform, devices = _program.devices(refused)
    judged = list(_settings.items(found, platform))
    return Report(
        platform,
        (
            *_program.versions(),
            devices,
            _program.threads(os.environ),
            *_program.mode(platform),
            *_program.seeds(),
            *_program.compiler(platform),
            *(_refused(refused) if refused is not None else ()),
            *sorted(judged, key=lambda item: _settings.SECTIONS.index(item.section)),
        ),
    )


def _refused(why: str) -> tuple[Item]:
    return (
        Item(
            _settings.SECTIONS[0],
            "XLA_FLAGS",
            os.environ.get("XLA_FLAGS"),
            "varies per process",
            f"XLA ends every process over it: {why}",
            "Take out of XLA_FLAGS what this jaxlib does not know.",
        ),
    )
