"""``impl.audit``: lists every equation of a program that can vary from run to run on a device.

It traces the program and asks the spec's rows about each equation. Nothing is compiled or run, so
it needs no GPU. Notes state facts that no rule changes, such as where a guarantee ends::

    impl.audit(lambda x, i, u: x.at[i].add(u))(x, i, u)    lax.scatter_add varies on cuda
    the same, in a process without kernels                 and a note of what computes it
    impl.audit(jnp.sum)(x) of a sharded x                  a note: another mesh, other bits
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from jax import lax

import spec
from impl import _jax
from impl._core import arguments, ordered_primitives
from impl._jax import jaxprs, tags
from impl._kernels import pallas
from impl._mode import compilation, modes
from impl._mode.modes import Mode
from impl._portable.carried_sums.lower import carried_sums
from impl._reading import compiled, control_flow, source
from impl._reading.tracing import check_device, check_gpu, compiled_text, mesh_of, trace
from impl._reading.values import Scope
from impl._reading.walk import Site, walk
from impl._run_to_run import rules
from impl._soft_float64 import engines
from impl.programs._auditing.judge import OWN, Judge
from impl.programs._auditing.report import Report, grouped
from impl.programs._auditing.sharded import sharded_equations
from spec import releases_of_jax

LEVELS = ("program", "compiled")
#: The first letters of the names of primitives whose kernels no compiled program shows.
_KERNELS = ("pallas_call", OWN)
#: Sums over the devices of a ``shard_map``.
_SUMS = frozenset({"psum", "psum_invariant", "reduce_scatter"})
#: Scatters that a kernel orders on a GPU.
_SUMS_BY_INDEX = frozenset({lax.scatter_add_p, lax.scatter_sub_p, lax.scatter_mul_p})
#: The primitive that passes values on from device to device, which the program may then add.
_PASSES = "ppermute"
#: The notes, in their order, in which lines or the like stand for "{}".
_NOTES: Mapping[str, str] = {
    "shared": (
        "Devices share the operands of {}. XLA combines the elements of each device first, so that "
        "another sharding or number of devices may give other bits. It may add sums over devices, "
        'which level="compiled" shows. To do: take guarantee="portable", or give each device the '
        "whole arrays."
    ),
    "refused": 'guarantee="portable" refuses {}.',
    "exempt": (
        "A scope has another mode at {}: its results, and all that a program computes from them, "
        "may have other bits on another device, or on another number of devices."
    ),
    "sums": (
        "The sum over devices at {} is joined with the sums of each device, if only linear "
        "operations are between them: then no bit depends on the mesh. Otherwise each device "
        "rounds its own sum first, and a mesh of another size gives other bits."
    ),
    "passed": (
        "A device passes values on at {}. If the program adds them, as a ring reduction does, each "
        "device rounds, and a mesh of another size gives other bits. Values that are only passed "
        "on keep their bits."
    ),
    "functions": (
        "Releases of JAX write these functions with different equations: {}. The bits are the same "
        "on every device, but not with every release."
    ),
    "joined": (
        "A loop carries these sums without rounding them: {}. Their bits do not depend on the "
        "number of iterations that a batch is cut into."
    ),
    "apart": (
        "A loop rounds these sums in each iteration: {}. Another number of iterations gives other "
        "bits."
    ),
}


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
    lines and with advice. Under ``run_to_run`` a note names the equations that combine elements of
    sharded arrays: their bits repeat on one mesh, and may differ on another.

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
        closed, shardings, options = trace(function, args, kwargs, mode)
        timed = times_kernels(options)
        judge = Judge(device, mode, timed)
        scope = Scope(closed.jaxpr, jaxprs.constants(closed))
        platform = spec.load().devices[device].platforms[0]
        is_leaf = spec.load().op_of_primitive.__contains__
        sites = list(walk(scope, is_leaf, platform=platform, computed=judge.computed))
        shared = () if mode.portable else sharded_equations(closed.jaxpr, shardings)
        facts = [*_of_shardings(judge, sites, shared)]
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
        if ordered_primitives.holds():
            facts += [*_of_equations(sites, mode), *_of_loops(closed.jaxpr, mode)]
        notes = (*_notes(facts), *_of_kernels(sites, platform))
        words = rules.in_words(mode)
        return Report(
            device, words, grouped(findings), count, level, notes, _engine(mode, platform, gpu)
        )

    return run


def _engine(mode: Mode, platform: str, gpu: str | None) -> str | None:
    """Returns the engine of ``portable`` in a program; None under another guarantee."""
    if not (mode.portable and ordered_primitives.holds()):
        return None
    devices = () if gpu is None else tuple(mesh_of(gpu).devices.flat)
    return engines.of_program((platform,), devices)


def _notes(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields the notes on facts: each is the key of a note, and a line or the like."""
    of_note: dict[str, dict[str, None]] = {key: {} for key in _NOTES}
    for key, line in facts:
        of_note[key][line] = None
    for key, lines in of_note.items():
        if lines:
            between = "; " if any("," in line for line in lines) else ", "
            yield _NOTES[key].format(between.join(lines))


def _of_shardings(
    judge: Judge, sites: Iterable[Site], shared: Collection[int]
) -> Iterator[tuple[str, str]]:
    """Yields facts on equations whose bits may show how devices share their operands."""
    lines: dict[str, dict[str, None]] = {}
    for site in sites:
        stated = judge.combining(site) if id(site.equation) in shared else None
        if stated is not None:
            op = spec.load().op_of_primitive.get(site.name, site.name)
            lines.setdefault(op, {})[_line(site.lines)] = None
            if stated.answer == "refused":
                yield "refused", f"{op}: {str(stated.remedy).removesuffix('.')}"
    for op, of_op in lines.items():
        yield "shared", f"{op} at {', '.join(of_op)}"


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


def _of_equations(sites: Iterable[Site], mode: Mode) -> Iterator[tuple[str, str]]:
    """Yields facts on sums over devices, and on functions that differ between releases.

    An equation may be in a scope with another mode than the program's.
    """
    for site in sites:
        line = _line(site.lines)
        if not (site.mode or mode).portable:
            if mode.portable:
                yield "exempt", line
            continue
        if site.name in _SUMS and _has_floats(site):
            yield "sums", line
        if site.name == _PASSES and _has_floats(site):
            yield "passed", line
        for function in _written_otherwise(site):
            yield "functions", f"{function} at {line}"


def _of_loops(jaxpr: Any, mode: Mode) -> Iterator[tuple[str, str]]:
    """Yields facts on the sums that the loops of a program carry."""
    for equation, lines, own in _scans(jaxpr, source.Lines(), mode):
        for each in carried_sums(equation.params, own)[1] if own.portable else ():
            aval = equation.outvars[each.position].aval.str_short(short_dtypes=True)
            if each.node is not None:
                yield "joined", f"{aval} at {_line(lines)}"
            elif each.is_sum:
                yield "apart", f"{aval} at {_line(lines)}, because {each.reason}"


def _of_kernels(sites: Iterable[Site], platform: str) -> tuple[str, ...]:
    """Returns a note if scatters need kernels on a platform, and their backend is missing."""
    count = sum(site.equation.primitive in _SUMS_BY_INDEX for site in sites)
    reason = pallas.reason_missing() if count and platform == "cuda" else None
    if reason is None:
        return ()
    text = (
        f"This process has no kernels: {reason}. XLA's operations compute {count} scatters, in "
        "another fixed order, and move more bytes."
    )
    return (text,)


def _scans(jaxpr: Any, outside: source.Lines, mode: Mode) -> Iterator[tuple[Any, Any, Mode]]:
    """Yields each ``scan`` of a program, with its lines of source and its mode."""
    for equation in jaxpr.eqns:
        lines, own = source.lines(equation, outside), tags.of(equation) or mode
        if equation.primitive.name == "scan":
            yield equation, lines, own
        for body in control_flow.bodies(equation):
            yield from _scans(body.opened, lines, own)


def _written_otherwise(site: Site) -> Iterator[str]:
    """Yields the functions that made an equation, and that may have other bits in a release."""
    frames = [(file, function) for file, _, function in _jax.frames(site.equation)]
    # An equation inside of a function that JAX compiles has no frame of its caller.
    file, _, rest = (site.lines.called or "").partition(":")
    changed = releases_of_jax.places()
    for path, function in [*frames, (file, rest.partition("(")[2].rstrip(")"))]:
        known = changed.get((path.rpartition("site-packages/")[2], function))
        if known is not None:
            yield known.name if 0 in known.orders else f"the derivative of {known.name}"


def _line(lines: source.Lines) -> str:
    return lines.user or lines.library or "an unknown line"


def _has_floats(site: Site) -> bool:
    return any("float" in str(operand.aval.dtype) for operand in site.equation.invars)
