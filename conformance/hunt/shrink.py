"""Makes the program of a finding smaller, while the same kind of finding is there.

It is delta debugging (Zeller and Hildebrandt 2002, "Simplifying and isolating failure-inducing
input") over programs in place of texts. Each pass proposes smaller findings, greatest step first; a
proposal that shows the fault replaces the finding, and the passes begin again::

    30 equations, 4 results, a mesh of 2x4    1 equation, 1 result, a mesh of 2
    16 rows of 7 columns                      2 rows of 1 column

``rebuilt`` leaves out variables that no result needs, and numbers the variables again: in the
program, in its tangents and cotangents, and in the shardings of the setting::

    inputs v0 v1 v2; v3 = v0 + v1; v4 = v3 * v2; results v3, v4
    rebuilt(..., outputs=(3,))
    inputs v0 v1; v2 = v0 + v1; result v2
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Iterator, Mapping

import numpy as np

from conformance.hunt import checks
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew
from conformance.hunt.program import Array, Input, Program, dtype_of, unpacked
from conformance.hunt.settings import BASE, MESHES, Setting, Spec, by_rows

#: The most elements of an argument that are simplified one by one.
_FEW = 24
#: Parameters that hold sizes of axes.
_SIZES = ("shape", "sizes")
#: The derivatives that are simpler than each one.
_SIMPLER = {"mixed": ("none", "reverse"), "reverse": ("none",), "forward": ("none",), "none": ()}


def shrink(crew: Crew, finding: Finding, seconds: float) -> Finding:
    """Returns the smallest finding of the same kind that was found in a number of seconds."""
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
                print(f"  shrinking stopped after {seconds:.0f} s", flush=True)
                return finding
    return finding


def _first(crew: Crew, proposals: Iterator[Finding], end: float) -> Finding | None:
    """Returns the first proposal that shows the fault."""
    for proposal in proposals:
        if time.monotonic() > end:
            return None
        smaller = checks.again(crew, proposal)
        if smaller is not None:
            return smaller
    return None


def _outputs(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes single results."""
    program = finding.program
    tokens = [each.token for each in program.equations]
    if finding.kind == "value" and finding.mark in tokens:
        number = program.primals + tokens.index(finding.mark)
        if program.outputs != (number,):
            yield _with(finding, outputs=(number,))
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield _with(finding, outputs=(output,))
        for output in program.outputs:
            yield _with(finding, outputs=tuple(v for v in program.outputs if v != output))
    elif len(rebuilt(program, finding.setting)[0].inputs) < len(program.inputs):
        yield _with(finding)


def _cuts(crew: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes that variables become arguments, with the values that they have."""
    program = finding.program
    count = len(program.equations)
    if count < 2:
        return
    plain, _ = rebuilt(program, BASE, derivative="none")
    if len(plain.equations) != count:
        return
    answer = crew.run(plain, BASE, ("digests", "values"), all_variables=True)
    if "values" not in answer:
        return
    rows = [each.aval.rows for each in program.equations]
    pairs = zip(answer["values"], rows, strict=True)
    values = [Input.of(unpacked(raw), rows=has_rows) for raw, has_rows in pairs]
    arguments = dict(enumerate(values, program.primals))
    free = [v for v in arguments if v not in program.outputs]
    for chunk in (free[: len(free) * 3 // 4], free[: len(free) // 2], free[: len(free) // 4]):
        if len(chunk) > 1:
            yield _with(finding, arguments={v: arguments[v] for v in chunk})
    for number in reversed(free):
        yield _with(finding, arguments={number: arguments[number]})
    # A result may also be an earlier variable.
    if len(program.outputs) == 1 and finding.kind != "value" and program.derivative == "none":
        for number in free:
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
        is_smaller = (len(mesh), math.prod(mesh)) < (len(setting.mesh), math.prod(setting.mesh))
        if not setting.mesh or not is_smaller or math.prod(mesh) > math.prod(setting.mesh):
            continue
        names = setting.axes[: len(mesh)]
        specs = tuple(_on_axes(spec, names) for spec in setting.specs)
        constraints = tuple((v, _on_axes(spec, names)) for v, spec in setting.constraints)
        new = dataclasses.replace(setting, mesh=mesh, specs=specs, constraints=constraints)
        yield dataclasses.replace(finding, setting=new)


def _on_axes(spec: Spec, names: tuple[str, ...]) -> Spec:
    """Returns a sharding over some axes of a mesh alone."""
    return tuple(tuple(name for name in each if name in names) for each in spec)


def _sizes(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes smaller axes."""
    sizes = {n for each in finding.program.inputs for n in each.aval.shape if n > 1}
    for size in sorted(sizes, reverse=True):
        for to in sorted({1, 2, size // 2, size - 1} - {size, 0}):
            program = resized(finding.program, size, to)
            yield dataclasses.replace(finding, program=program)


def _values(_: Crew, finding: Finding) -> Iterator[Finding]:
    """Proposes ones and zeros for whole arguments."""
    for position, each in enumerate(finding.program.inputs):
        values = each.values()
        is_simple = np.isin(values, [0, 1]) & ~np.signbit(values.real)
        for number in (1.0, 0.0) if values.dtype.kind not in "biu" else ():
            if not np.all(is_simple) or (number == 0 and np.any(values)):
                yield _with_values(finding, position, np.full_like(values, number))


def _elements(_: Crew, finding: Finding, tried: set[tuple[int, int, float]]) -> Iterator[Finding]:
    """Proposes ones and zeros for elements, each of them once."""
    for position, each in enumerate(finding.program.inputs):
        values = each.values()
        if values.dtype.kind in "biuc" or values.size > _FEW:
            continue
        for index, number in itertools.product(range(values.size), (0.0, 1.0)):
            value = values.flat[index]
            is_simple = value in (0, 1) and not np.signbit(value)
            if not is_simple and (position, index, number) not in tried:
                tried.add((position, index, number))
                new = values.copy()
                new.flat[index] = number
                yield _with_values(finding, position, new)


def _with_values(finding: Finding, position: int, values: Array) -> Finding:
    """Returns a finding with other elements in one argument."""
    inputs = list(finding.program.inputs)
    inputs[position] = Input.of(values, rows=inputs[position].aval.rows)
    program = dataclasses.replace(finding.program, inputs=tuple(inputs))
    return dataclasses.replace(finding, program=program)


def _with(finding: Finding, **changes: object) -> Finding:
    program, setting = rebuilt(finding.program, finding.setting, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(finding, program=program, setting=setting)


def rebuilt(
    program: Program,
    setting: Setting,
    *,
    outputs: tuple[int, ...] | None = None,
    derivative: str | None = None,
    arguments: Mapping[int, Input] | None = None,
) -> tuple[Program, Setting]:
    """Returns a program with fewer results, another derivative, or variables as arguments.

    All results stay if ``outputs`` is None, and so does the derivative. ``arguments`` are values
    for variables that become arguments: their equations go.
    """
    new = dict(arguments or {})
    results = program.outputs if outputs is None else outputs
    live = _live(program, results, new)
    order = [v for v in range(program.primals) if v in live] + sorted(new.keys() & live)
    primals = len(order)
    equations = [v for v in sorted(live) if v >= program.primals and v not in new]
    order += equations
    number = {old: i for i, old in enumerate(order)}
    cotangents, tangents = _seeds(program)
    kind = program.derivative if derivative is None else derivative
    own = [new.get(v) or program.inputs[v] for v in order[:primals]]
    seeds = [cotangents[v] for v in results] if kind in ("reverse", "mixed") else []
    if kind in ("forward", "mixed"):
        pairs = zip(order, own, strict=False)
        seeds += [tangents.get(v) or _ones(each) for v, each in pairs if each.aval.is_real]
    renumbered = []
    for v in equations:
        equation = program.equations[v - program.primals]
        operands = tuple(number[o] for o in equation.operands)
        renumbered.append(dataclasses.replace(equation, operands=operands))
    result = Program(
        (*own, *seeds), tuple(renumbered), tuple(number[v] for v in results), kind, primals
    )
    return result, _adapted(setting, program, result, order[:primals], number)


def _live(program: Program, outputs: tuple[int, ...], new: Mapping[int, Input]) -> set[int]:
    """Returns the variables that results need."""
    live, waiting = set(), list(outputs)
    while waiting:
        v = waiting.pop()
        if v not in live:
            live.add(v)
            if v >= program.primals and v not in new:
                waiting += program.equations[v - program.primals].operands
    return live


def _seeds(program: Program) -> tuple[dict[int, Input], dict[int, Input]]:
    """Returns the cotangent of each result, and the tangent of each argument."""
    seeds = list(program.inputs[program.primals :])
    count = len(program.outputs) if program.derivative in ("reverse", "mixed") else 0
    real = [v for v in range(program.primals) if program.inputs[v].aval.is_real]
    cotangents = dict(zip(program.outputs, seeds[:count], strict=False))
    return cotangents, dict(zip(real, seeds[count:], strict=False))


def _ones(each: Input) -> Input:
    ones = np.ones(each.aval.shape, dtype_of(each.aval.dtype))
    return Input.of(ones, rows=each.aval.rows)


def _adapted(
    setting: Setting, old: Program, new: Program, primals: list[int], number: dict[int, int]
) -> Setting:
    """Returns the setting with shardings for the arguments of the new program."""
    if not setting.mesh:
        return setting
    specs: list[Spec] = []
    for position, each in enumerate(new.inputs):
        source = primals[position] if position < len(primals) else -1
        shares = setting.partition in ("shard_map", "pmap")
        own = by_rows(each.aval, setting.axes if shares else ())
        specs.append(setting.specs[source] if 0 <= source < old.primals else own)
    constraints = tuple((number[v], s) for v, s in setting.constraints if v in number)
    return dataclasses.replace(setting, specs=tuple(specs), constraints=constraints)


def resized(program: Program, size: int, to: int) -> Program:
    """Returns a program whose axes of one size have a smaller one."""

    def shape(old: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(to if n == size else n for n in old)

    inputs = []
    for each in program.inputs:
        values = each.values()[tuple(slice(n) for n in shape(each.aval.shape))]
        inputs.append(Input.of(np.ascontiguousarray(values), rows=each.aval.rows))
    equations = []
    for equation in program.equations:
        params = {
            name: [*shape(tuple(value))] if name in _SIZES else value
            for name, value in equation.params.items()
        }
        aval = equation.aval.with_shape(*shape(equation.aval.shape))
        equations.append(dataclasses.replace(equation, params=params, aval=aval))
    return dataclasses.replace(program, inputs=tuple(inputs), equations=tuple(equations))
