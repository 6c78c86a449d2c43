"""Makes the program of a finding smaller, while the same kind of finding is there.

It is delta debugging (Zeller and Hildebrandt 2002, "Simplifying and isolating failure-inducing
input") over programs in place of texts. Each pass proposes smaller findings, greatest step first; a
proposal that shows the fault replaces the finding, and the passes begin again::

    30 equations, 4 results, a mesh of 2x4    1 equation, 1 result, a mesh of 2
    16 rows of 7 columns                      2 rows of 1 column
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import numpy as np

from conformance.hunt import checks, edits
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew
from conformance.hunt.program import Input, unpacked
from conformance.hunt.settings import BASE, MESHES

#: The most elements of an argument that are simplified one by one.
_FEW = 24
#: The derivatives that are simpler than each one.
_SIMPLER = {"mixed": ("none", "reverse"), "reverse": ("none",), "forward": ("none",), "none": ()}


def shrink(crew: Crew, finding: Finding, seconds: float, say: Callable[[str], None]) -> Finding:
    """Returns the smallest finding of the same kind that was found in time.

    Args:
        crew: The workers.
        finding: The finding.
        seconds: The time after which it stops.
        say: Prints progress.
    """
    end = time.monotonic() + seconds
    elements = functools.partial(_elements, tried=set())
    passes = (_outputs, _cuts, _derivatives, _settings, _meshes, _sizes, _values, elements)
    progress = True
    while progress:
        progress = False
        for each in passes:
            while (smaller := _first(crew, each(crew, finding), end)) is not None:
                finding, progress = smaller, True
            if time.monotonic() > end:
                say(f"shrinking stopped after {seconds:.0f} s")
                return finding
    return finding


def _first(crew: Crew, proposals: Iterator[Finding], end: float) -> Finding | None:
    """Returns the first proposal that shows the fault."""
    for proposal in proposals:
        if time.monotonic() > end:
            return None
        found = checks.again(crew, proposal)
        if found is not None:
            return found
    return None


def _outputs(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes single results."""
    program = finding.program
    if finding.kind == "value":
        number = next(
            (
                v
                for v, each in enumerate(program.equations, program.primals)
                if each.token == finding.mark
            ),
            None,
        )
        if number is not None and program.outputs != (number,):
            yield _with(finding, outputs=(number,))
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield _with(finding, outputs=(output,))
        for output in program.outputs:
            yield _with(finding, outputs=tuple(v for v in program.outputs if v != output))
    elif len(edits.rebuilt(program, finding.setting)[0].inputs) < len(program.inputs):
        yield _with(finding)


def _cuts(crew: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes that variables become arguments, with the values that they have."""
    program = finding.program
    count = len(program.equations)
    if count < 2:
        return
    plain, _ = edits.rebuilt(program, BASE, derivative="none")
    if len(plain.equations) != count:
        return
    answer = crew.run(plain, BASE, ("digests", "values"), all_variables=True)
    if "values" not in answer:
        return
    arguments: dict[int, Input] = {}
    for number, (raw, equation) in enumerate(
        zip(answer["values"], program.equations, strict=True), program.primals
    ):
        arguments[number] = Input.of(unpacked(raw), rows=equation.aval.rows)
    free = [v for v in arguments if v not in program.outputs]
    for chunk in (free[: len(free) * 3 // 4], free[: len(free) // 2], free[: len(free) // 4]):
        if len(chunk) > 1:
            yield _with(finding, arguments={v: arguments[v] for v in chunk})
    for number in reversed(free):
        yield _with(finding, arguments={number: arguments[number]})
    # A result may also be an earlier variable.
    if len(program.outputs) == 1 and finding.kind != "value":
        for number in free:
            if program.derivative == "none":
                yield _with(finding, outputs=(number,))


def _derivatives(_: Crew, finding: Finding) -> Iterator[Finding]:
    for simpler in _SIMPLER[finding.program.derivative]:
        yield _with(finding, derivative=simpler)


def _settings(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes simpler calls, the first worker, and fewer shardings."""
    setting = finding.setting
    changes: list[dict[str, object]] = []
    if setting.mesh:
        changes.append({"mesh": (), "partition": "none", "specs": (), "constraints": ()})
        changes += [{"constraints": ()}] if setting.constraints else []
        for i in range(len(setting.constraints)):
            rest = setting.constraints[:i] + setting.constraints[i + 1 :]
            changes.append({"constraints": rest})
        if setting.partition == "jit":
            for i, spec in enumerate(setting.specs):
                if any(spec):
                    specs = (*setting.specs[:i], ((),) * len(spec), *setting.specs[i + 1 :])
                    changes.append({"specs": specs})
    if setting.call != "jit":
        changes.append({"call": "jit"})
    if setting.worker:
        changes.append({"worker": 0})
    for change in changes:
        yield dataclasses.replace(finding, setting=dataclasses.replace(setting, **change))  # type: ignore[arg-type]


def _meshes(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes meshes of fewer devices or axes."""
    setting = finding.setting
    for mesh in MESHES:
        smaller = (len(mesh), int(np.prod(mesh))) < (len(setting.mesh), int(np.prod(setting.mesh)))
        if not setting.mesh or not smaller or np.prod(mesh) > np.prod(setting.mesh):
            continue
        names = setting.axes[: len(mesh)]

        def kept(spec: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(n for n in each if n in names) for each in spec)  # noqa: B023  # Used at once.

        specs = tuple(map(kept, setting.specs))
        constraints = tuple((v, kept(spec)) for v, spec in setting.constraints)
        new = dataclasses.replace(setting, mesh=mesh, specs=specs, constraints=constraints)
        yield dataclasses.replace(finding, setting=new)


def _sizes(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes smaller axes."""
    sizes = {n for each in finding.program.inputs for n in each.aval.shape if n > 1}
    for size in sorted(sizes, reverse=True):
        for to in sorted({1, 2, size // 2, size - 1} - {size, 0}):
            program = edits.resized(finding.program, size, to)
            yield dataclasses.replace(finding, program=program)


def _values(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes ones and zeros for whole arguments."""
    for position, each in enumerate(finding.program.inputs):
        values = each.values()
        if values.dtype.kind in "biu":
            continue
        for number in (1.0, 0.0):
            if not _is(values, number):
                new = np.full_like(values, number)
                yield dataclasses.replace(
                    finding, program=edits.with_values(finding.program, position, new)
                )


def _elements(_: Crew, finding: Finding, tried: set[tuple[int, int, float]]) -> Iterator[Finding]:
    """Proposes ones and zeros for elements, each of them once."""
    for position, each in enumerate(finding.program.inputs):
        values = each.values()
        if values.dtype.kind in "biu" or values.size > _FEW or values.dtype.kind == "c":
            continue
        for index in range(values.size):
            value = values.reshape(-1)[index]
            if value in (0, 1) and not np.signbit(value):
                continue
            for number in (0.0, 1.0):
                if (position, index, number) in tried:
                    continue
                tried.add((position, index, number))
                new = values.copy()
                new.reshape(-1)[index] = number
                yield dataclasses.replace(
                    finding, program=edits.with_values(finding.program, position, new)
                )


def _is(values: np.ndarray, number: float) -> bool:
    """Returns whether all elements are a number, which is no negative zero."""
    simple = np.isin(values, [0, 1]) & ~np.signbit(values.real)
    return bool(np.all(simple)) and (number == 1.0 or bool(np.all(values == number)))


def _with(finding: Finding, **changes: object) -> Finding:
    program, setting = edits.rebuilt(finding.program, finding.setting, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(finding, program=program, setting=setting)
