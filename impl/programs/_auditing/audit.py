"""``impl.audit``: lists every equation of a program that can vary from run to run on a device.

It traces the program and asks the spec's rows about each equation. Nothing is compiled or run, so
it needs no GPU.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax

import spec
from impl._core import arguments, ordered_primitives
from impl._jax import jaxprs
from impl._mode import compilation, modes
from impl._mode.modes import Mode
from impl._reading import compiled
from impl._reading.tracing import check_device, check_gpu, compiled_text, mesh_of, trace
from impl._reading.values import Scope
from impl._reading.walk import walk
from impl._run_to_run import rules
from impl._soft_float64 import engines
from impl.programs._auditing import notes
from impl.programs._auditing.judge import OWN, Judge
from impl.programs._auditing.report import Report, grouped

LEVELS = ("program", "compiled")
#: The first letters of the names of primitives whose kernels no compiled program shows.
_KERNELS = ("pallas_call", OWN)
_SHARDED = (
    "Arguments are on several devices: XLA may add sums over devices, which no equation shows. "
    'level="compiled" shows them.'
)


def audit(
    function: Callable[..., Any],
    *,
    device: str = "cuda",
    level: str = "program",
    gpu: str | None = None,
) -> Callable[..., Report]:
    """Returns a function that lists what can vary from run to run in a program.

    Call the result with the program's arguments. The report holds for the mode of the calling
    thread, as if the program was compiled there and then::

        report = impl.audit(train_step)(params, batch)
        print(report)
        assert report.ok

    Pass a whole training step: the gradients are a part of it. The program is traced, and neither
    compiled nor run, so that no GPU is needed. A function that ``jax.jit`` or ``impl.jit`` returned
    is traced as it is, with its static arguments and its compiler options. For any other function,
    arrays are traced and other arguments are constants.

    A finding is an equation that could vary with the mode off, or that no row is about. The rows
    of the kind ``primitive`` decide. Equations that give the same bits anyway are not listed,
    unless the mode orders or refuses them: its rules see no values, while the audit sees some.

    Under the guarantee ``portable`` the findings include the equations that it refuses, with their
    lines and with advice.

    Args:
        function: The program.
        device: The device that the verdicts are about: "cpu", "cuda" or "tpu".
        level: "program" reads the equations of the program. "compiled" has XLA compile it for the
            device at hand, and reads its instructions: they include the sums over devices that XLA
            adds, and lack the equations that XLA drops. Kernels of Pallas are read as equations.
        gpu: The name of a GPU that "compiled" compiles for, such as "h100"; it need not be there,
            but JAX's plugins for CUDA must be installed. None takes the device at hand.

    Returns:
        A function of the program's arguments, which may be arrays or ``jax.ShapeDtypeStruct``. It
        returns a ``Report`` with the attributes ``findings``, ``ok``, which is True if nothing
        varies, is unknown or raises, and ``engine``, which stands for float64 on the device under
        the guarantee ``portable``. Each finding has the
        attributes ``primitive``, ``row``, ``verdict``, ``source``, ``shapes``, ``remedy`` and
        ``count``. ``str()`` of the report is a table, and ``as_dict()`` returns plain data.

    Raises:
        TypeError: ``function`` is not callable.
        ValueError: ``device`` is not a device of the spec that JAX has a platform for, or there is
            no such level or GPU.
        RuntimeError: ``level`` is "compiled", and the device at hand is another one, or this
            process cannot compile for ``gpu``.
    """
    arguments.check_callable("audit", "function", function)
    arguments.check_choice("audit", "device", device, spec.DEVICES)
    arguments.check_choice("audit", "level", level, LEVELS)
    if gpu is not None:
        check_gpu(device, level, gpu)
    elif level == "compiled":
        check_device(device)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Report:
        mode = modes.current()
        closed, options = trace(function, args, kwargs, mode)
        timed = times_kernels(options)
        judge = Judge(device, mode, timed)
        scope = Scope(closed.jaxpr, jaxprs.constants(closed))
        platform = spec.load().devices[device].platforms[0]
        is_leaf = spec.load().op_of_primitive.__contains__
        sites = list(walk(scope, is_leaf, platform=platform, computed=judge.computed))
        if level == "compiled":
            sites = [site for site in sites if site.name.startswith(_KERNELS)]
        findings = [finding for site in sites if (finding := judge.finding(site)) is not None]
        count = len(sites)
        if level == "compiled":
            text = compiled_text(function, args, kwargs, gpu)
            instructions, count = compiled.instructions(text, timed_kernels=timed)
            findings += [
                f for each in instructions if (f := judge.of_instruction(each)) is not None
            ]
        remarks: tuple[str, ...] = ()
        if not mode.portable and level != "compiled":
            remarks = _of_shardings(args, kwargs)
        if ordered_primitives.holds():
            remarks += notes.notes(sites, mode) + notes.of_loops(closed.jaxpr, mode)
        remarks += notes.of_kernels(sites, platform)
        words = rules.in_words(mode)
        return Report(
            device, words, grouped(findings), count, level, remarks, _engine(mode, platform, gpu)
        )

    return run


def _engine(mode: Mode, platform: str, gpu: str | None) -> str | None:
    """Returns the engine of ``portable`` in a program; None under another guarantee."""
    if not (mode.portable and ordered_primitives.holds()):
        return None
    devices = () if gpu is None else tuple(mesh_of(gpu).devices.flat)
    return engines.of_program((platform,), devices)


def _of_shardings(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a note if XLA may add sums over devices, which no equation shows."""
    arrays = [leaf for leaf in jax.tree.leaves((args, dict(kwargs))) if isinstance(leaf, jax.Array)]
    if any(len(array.sharding.device_set) > 1 for array in arrays):
        return (_SHARDED,)
    return ()


def times_kernels(options: Mapping[str, Any]) -> bool:
    """Returns whether XLA may pick kernels by timing, under a program's compiler options."""
    given = compilation.parsed(os.environ.get(compilation.VARIABLE, ""))
    given |= {name: str(value).lower() for name, value in options.items()}
    rows = spec.load().select(op="compiler.templates")
    required = {name: value for row in rows for name, value in row.options.items()}
    return any(
        compilation.one_spelling(given.get(name, ""))
        != compilation.one_spelling(str(value).lower())
        for name, value in required.items()
    )
