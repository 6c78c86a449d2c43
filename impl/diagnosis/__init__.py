"""``impl.doctor``: reports what in this process and on this machine can change bits."""

# The modules: ``_program`` and ``_settings``, which reads ``settings.toml``, make the items of the
# report; ``_report`` prints them. ``_after`` runs a file, and makes items of its programs and
# generators (``_generators``); ``_twice`` compares the calls of two processes.
# ``_processes`` is ``impl.testing.assert_processes_agree``.

from __future__ import annotations

import os

from impl._reading import tracing
from impl.diagnosis import _program, _settings
from impl.diagnosis._after import Ran
from impl.diagnosis._report import Item, Report

__all__ = ["Item", "Report", "doctor"]


def doctor() -> Report:
    """Looks at all settings and facts that are known to change bits, and gives each a verdict.

    A verdict is ``fixed``, ``varies per process`` (two runs on this machine may differ because of
    it) or ``varies per machine`` (two machines with this installation and environment may differ).
    It is about the process and thread that call: the mode, switches and seeds that hold now count.

    A first call starts JAX's backend. If ``XLA_FLAGS`` is set, another process tests it first,
    since XLA aborts the process if it does not know a flag. A broken environment is reported, and
    no error is raised.

    Returns:
        The report. ``varying`` has the items that vary and have a remedy, ``as_dict()`` returns
        plain data, and ``str()`` a table.
    """
    return report()


def report(ran: Ran | None = None) -> Report:
    """Returns the doctor's report, also about a file that ran in this process."""
    refusal = _settings.refusal()
    platform, devices = _program.devices(refusal)
    name = None if platform is None else tracing.platform_at_hand()
    settings = _settings.items(_settings.of_process(), platform)
    return Report(
        platform,
        (
            *_program.versions(),
            devices,
            *_program.untried(name),
            _program.threads(os.environ),
            *_program.mode(platform),
            *_program.engine(name),
            *_program.seeds(None if ran is None else ran.watch),
            *_program.compiler(platform),
            *_program.kernels(name),
            *([] if refusal is None else [_refused_flags(refusal)]),
            *sorted(settings, key=lambda item: _settings.SECTIONS.index(item.section)),
            *(() if ran is None else ran.items()),
        ),
        None if ran is None else ran.as_dict(),
    )


def _refused_flags(refusal: str) -> Item:
    section, value = _settings.SECTIONS[0], os.environ.get("XLA_FLAGS")
    reason = f"XLA ends every process over it: {refusal}"
    remedy = "Take out of XLA_FLAGS what this jaxlib does not know."
    return Item(section, "XLA_FLAGS", value, "varies per process", reason, remedy)
