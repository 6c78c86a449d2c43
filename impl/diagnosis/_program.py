"""Items about the program and the machine: versions, devices, the mode, seeds, options.

Each function yields the items of one section of the doctor's report, about the state of this
process now. An item has a value, a verdict, a reason, and a remedy if the value can be fixed::

    Varies per machine (1)
      deterministic algorithms  off
          Operations of impl and scatters of JAX keep no order. A process begins with it off. To do:
          Call impl.use_deterministic_algorithms(True) in the program.

``_settings`` makes the items of environment variables and flags, which need no JAX.
"""

from __future__ import annotations

import os
import platform as python_platform
from collections.abc import Iterator, Mapping

import jax

import spec
from impl import programs
from impl._kernels import pallas
from impl._mode import compilation, modes, switches
from impl._native import library
from impl._soft_float64.engines import of_program
from impl.diagnosis._generators import Global, Watch
from impl.diagnosis._report import Item, Verdict
from impl.digests._log import DISTRIBUTIONS, installed_version
from impl.random import default_generator, libraries_seed
from spec.engines import engines

_SEED = "Call impl.seed_everything(seed) in the program."


def versions() -> Iterator[Item]:
    """Yields an item for Python and for each distribution whose release can change bits."""
    reason = "This installation has one. Another release may compute other bits: pin it."
    yield Item("Versions", "python", python_platform.python_version(), "fixed", reason)
    for name in DISTRIBUTIONS:
        version = installed_version(name)
        absent = "It is not installed, or used from a folder."
        yield Item("Versions", name, version, "fixed", reason if version else absent)


def devices(refusal: str | None) -> tuple[str | None, Item]:
    """Returns the platform and the item of its devices; starts JAX's backend.

    If XLA would end the process with the message ``refusal``, the backend is not started.
    """
    if refusal is not None:
        return None, _no_devices(f"not looked at, for XLA would end the process: {refusal}")
    try:
        all_devices = jax.devices()
        platform = jax.default_backend()
        processes = jax.process_count()
    except Exception as error:  # noqa: BLE001  # A plugin of JAX may raise any exception.
        return None, _no_devices(str(error).strip().split("\n")[-1] or type(error).__name__)
    kinds = sorted({device.device_kind for device in all_devices})
    value = f"{len(all_devices)} {platform}: {', '.join(kinds)}"
    if processes > 1:
        value += f", of {processes} processes"
    reason = (
        f"The processor is {python_platform.machine()}. Another kind of device gives the same bits "
        "only for operations with the guarantee `portable` in the spec."
    )
    if _all_is_portable():
        reason = "With the guarantee portable, no device and no number of devices changes bits."
        return platform, Item("Devices", "devices", value, "fixed", reason)
    return platform, Item("Devices", "devices", value, "varies per machine", reason)


def untried(platform: str | None) -> Iterator[Item]:
    """Yields an item if nothing has run on a platform, which is as a lowering names it."""
    device = spec.load().platforms.get(platform or "")
    if platform is None or device is None or platform not in device.untried:
        return
    remedy = (
        f"Run python -m conformance run --device {device.name} --report {platform}.json, and "
        "report the file."
    )
    reason = device.untried[platform]
    yield Item("Devices", "platform", platform, "varies per machine", reason, remedy)


def _all_is_portable() -> bool:
    """Returns whether the mode refuses every operation without a portable path."""
    now = modes.current()
    return now.portable and not now.warn_only


def _no_devices(why: str) -> Item:
    reason = f"JAX has no device here: {why}"
    remedy = "Correct the environment until python -c 'import jax; jax.devices()' works."
    return Item("Devices", "devices", None, "varies per machine", reason, remedy)


def threads(environment: Mapping[str, str]) -> Item:
    """Returns the item of the number of threads with which XLA computes on a CPU."""
    of = "Devices", "CPU threads"
    for name in ("PJRT_NPROC", "NPROC"):  # XLA reads them in this order.
        if environment.get(name):
            reason = f"{name} sets how many threads of the CPU compute a program."
            return Item(*of, environment[name], "fixed", reason)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if _all_is_portable():
        reason = "With the guarantee portable, the number of threads changes no bits."
        return Item(*of, str(count), "fixed", reason)
    reason = "XLA uses as many threads as the process may, and divides some sums among them."
    remedy = f"Set NPROC={count} on every machine."
    return Item(*of, str(count), "varies per machine", reason, remedy)


def mode(platform: str | None) -> Iterator[Item]:
    """Yields the items of the deterministic mode and its settings."""
    section, now = "Mode", modes.current()
    value = "off" if not now.enabled else "on, warn_only" if now.warn_only else "on"
    racing: Verdict = "varies per machine" if platform == "cpu" else "varies per process"
    verdict, reason, remedy = _mode_verdict(now, platform, racing)
    yield Item(section, "deterministic algorithms", value, verdict, reason, remedy)
    yield Item(section, "profile", now.profile, "fixed", "Its rows state what the mode does.")
    promise = {
        "run_to_run": (
            "Each run on this machine gives the same bits. With guarantee='portable', other "
            "devices and numbers of devices do too."
        ),
        "portable": "Every device and every number of devices give the same bits.",
    }
    yield Item(section, "guarantee", now.guarantee, "fixed", promise[now.guarantee])
    name, fills = "fill_uninitialized_memory", modes.fill_uninitialized_memory()
    if fills or platform == "cpu":
        reason = "Fresh memory has a known value where the mode is on; on a CPU, zeros at least."
        yield Item(section, name, str(fills), "fixed", reason)
    else:
        reason = "Fresh memory holds the values of its earlier use."
        remedy = f"Set impl.utils.deterministic.{name} = True."
        yield Item(section, name, str(fills), "varies per process", reason, remedy)


def engine(platform: str | None) -> Iterator[Item]:
    """Yields what stands for float64 under ``portable`` on the first device."""
    if platform is None:
        return
    name = of_program((platform,), jax.devices())
    reason = f"Under portable, it is {engines()[name].statement}. Every engine gives the same bits."
    problem = library.problem() if platform == "cpu" else None
    if problem is not None:
        reason += f" The engine native, which is faster, is missing: {problem}."
    yield Item("Mode", "engine", name, "fixed", reason)


def _mode_verdict(
    now: modes.Mode, platform: str | None, racing: Verdict
) -> tuple[Verdict, str, str | None]:
    if not now.enabled:
        return (
            racing,
            "Operations of impl and scatters of JAX keep no order. A process begins with it off.",
            "Call impl.use_deterministic_algorithms(True) in the program.",
        )
    rows = spec.load().select(profile=now.profile, behaviour="raise", active=True)
    device = spec.load().backends.get(platform or "")
    raising = [row for row in rows if device is None or row.covers(device.name)]
    warned = len(raising) if now.warn_only else 0
    if warned:
        return (
            racing,
            f"{warned} rows of the profile {now.profile!r} only warn, and then race.",
            "Leave warn_only out, or take profile='complete', in which nothing has to raise.",
        )
    if not programs.are_enabled():
        return (
            racing,
            "Scatters of JAX take no fixed order: the rules for JAX's primitives are off.",
            "Leave out impl.programs.disable(), and SAMEBITS_PROGRAMS=0.",
        )
    reason = (
        "Operations of impl and scatters of JAX keep a fixed order, or raise if they have none."
    )
    return "fixed", reason, None


def seeds(watch: Watch | None = None) -> Iterator[Item]:
    """Yields an item for each global generator; ``watch`` knows a program that ran here."""
    section, name = "Seeds", "impl.default_generator"
    seed = str(default_generator.initial_seed())
    if watch is not None and watch.unseeded_draw is not None:
        reason = f"{watch.unseeded_draw} draws from it, and nothing has seeded it before."
        yield Item(section, name, seed, "varies per process", reason, _SEED)
    elif default_generator.seeded:
        yield Item(section, name, seed, "fixed", "The program chose its seed.")
    elif watch is not None:
        yield Item(section, name, None, "fixed", "The program drew nothing from it.")
    else:
        reason = "Its seed came from the operating system."
        yield Item(section, name, seed, "varies per process", reason, _SEED)
    shared_seed = libraries_seed()
    for name, bits in (("random", 64), ("numpy.random", 32)):
        known = None if watch is None else watch.states[name]
        if known is not None and (
            shared_seed is None or not known.seeded or known.unseeded_use is not None
        ):
            yield _watched_seed(name, known)
        elif shared_seed is not None:
            reason = "impl.seed_everything seeded it; whether it was seeded again since is unknown."
            yield Item(section, name, str(shared_seed % (1 << bits)), "fixed", reason)
        else:
            reason = "impl.seed_everything did not seed it; whether the program did is unknown."
            yield Item(section, name, None, "varies per process", reason, _SEED)


def _watched_seed(name: str, state: Global) -> Item:
    """Returns the item of a global generator that a program may have seeded and drawn from."""
    section = "Seeds"
    if state.unseeded_use is not None:
        reason = f"{state.unseeded_use} draws from it, and nothing has seeded it before."
        return Item(section, name, None, "varies per process", reason, _SEED)
    if state.changed:
        reason = "The program drew from it, and did not seed it. The line is unknown."
        return Item(section, name, None, "varies per process", reason, _SEED)
    if state.seeded:
        return Item(section, name, "a seed", "fixed", "The program seeded it before it drew.")
    return Item(section, name, None, "fixed", "The program drew nothing from it.")


def kernels(platform: str | None) -> Iterator[Item]:
    """Yields the item of the backend of kernels, which only the platform ``cuda`` uses."""
    if platform != "cuda":
        return
    section, name = "Kernels", "Pallas' Triton backend"
    reason = pallas.reason_missing()
    if reason is None:
        yield Item(section, name, "found", "fixed", "Operations of impl launch kernels on a GPU.")
        return
    replaced = f"XLA's operations replace the kernels of impl, and move more bytes: {reason}."
    yield Item(section, name, None, "fixed", f"{replaced} Ordered paths keep their bits.")


def compiler(platform: str | None) -> Iterator[Item]:
    """Yields the items of the switches of backends and of the options of ``impl.jit``."""
    section = "Compiler options of impl.jit"
    varies: Verdict = "varies per process"
    name, benchmark = "backends.cudnn.benchmark", switches.current().cudnn_benchmark
    if benchmark and platform != "cpu":
        reason, remedy = "Algorithms are picked by timing them.", f"Set impl.{name} = False."
        yield Item(section, name, "True", varies, reason, remedy)
    else:
        reason = "Algorithms are picked without timing them, as on every CPU."
        yield Item(section, name, str(benchmark), "fixed", reason)
    unknown: set[str] = set()
    if platform is not None:  # The query starts the backend, which may abort without a platform.
        try:
            unknown = {setting.option for setting in compilation.unknown_options()}
        except jax.errors.JaxRuntimeError as error:
            reason = f"The installed jaxlib compiles nothing with them: {error}"
            remedy = "Correct the setting that the message names."
            yield Item(section, "compiler_options", None, varies, reason, remedy)
    rules = spec.load()
    for setting in compilation.settings():
        value = str(setting.value) or "(empty)"
        row = rules.row(setting.row)
        if setting.option not in unknown:
            yield Item(section, setting.option, value, "fixed", f"{row.statement} ({row.id})")
        elif platform == "cpu":
            reason = f"The installed jaxlib does not know it; a CPU needs none ({row.id})."
            yield Item(section, setting.option, None, "fixed", reason)
        else:
            reason = (
                f"The installed jaxlib does not know it, so nothing does what {row.id} asks for."
            )
            remedy = "Install a jaxlib that has it."
            yield Item(section, setting.option, None, varies, reason, remedy)
