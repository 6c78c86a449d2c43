"""Changes of a finding's program and setting that keep both well formed.

``rebuilt`` leaves out variables that no result needs, and numbers the variables again: in the
program, in its tangents and cotangents, and in the shardings of the setting::

    inputs v0 v1 v2; v3 = v0 + v1; v4 = v3 * v2; results v3, v4
    rebuilt(..., outputs=(3,))
    inputs v0 v1; v2 = v0 + v1; result v2
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from conformance.hunt.pool import is_real
from conformance.hunt.program import Array, Input, Program, dtype_of
from conformance.hunt.settings import Setting, Spec

#: Parameters that hold sizes of axes.
_SIZES = ("shape", "sizes")


def rebuilt(
    program: Program,
    setting: Setting,
    *,
    outputs: tuple[int, ...] | None = None,
    derivative: str | None = None,
    arguments: Mapping[int, Input] | None = None,
) -> tuple[Program, Setting]:
    """Returns a program with fewer results, another derivative, or variables as arguments.

    Args:
        program: The program.
        setting: A setting of it.
        outputs: The results that stay; None for all.
        derivative: The derivative; None for the same.
        arguments: Values for variables that become arguments: their equations go.
    """
    new = dict(arguments or {})
    kept = program.outputs if outputs is None else outputs
    live = _live(program, kept, new)
    order = [v for v in range(program.primals) if v in live] + sorted(new.keys() & live)
    primals = len(order)
    equations = [v for v in sorted(live) if v >= program.primals and v not in new]
    order += equations
    number = {old: i for i, old in enumerate(order)}
    cotangents, tangents = _seeds(program)
    kind = program.derivative if derivative is None else derivative
    own = [new.get(v) or program.inputs[v] for v in order[:primals]]
    seeds = [cotangents[v] for v in kept] if kind in ("reverse", "mixed") else []
    if kind in ("forward", "mixed"):
        real = [v for v in order[:primals] if is_real((new.get(v) or program.inputs[v]).aval)]
        seeds += [tangents.get(v) or _ones(new.get(v) or program.inputs[v]) for v in real]
    renumbered = []
    for v in equations:
        equation = program.equations[v - program.primals]
        operands = tuple(number[o] for o in equation.operands)
        renumbered.append(dataclasses.replace(equation, operands=operands))
    result = Program(
        (*own, *seeds), tuple(renumbered), tuple(number[v] for v in kept), kind, primals
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
    real = [v for v in range(program.primals) if is_real(program.inputs[v].aval)]
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
        rank = len(each.aval.shape)
        source = primals[position] if position < len(primals) else -1
        if 0 <= source < old.primals:
            specs.append(setting.specs[source])
        elif each.aval.rows and setting.partition in ("shard_map", "pmap"):
            specs.append((setting.axes, *((),) * (rank - 1)))
        else:
            specs.append(((),) * rank)
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


def with_values(program: Program, position: int, values: Array) -> Program:
    """Returns a program with other elements in one argument."""
    old = program.inputs[position]
    new = Input.of(values.astype(dtype_of(old.aval.dtype)), rows=old.aval.rows)
    inputs = (*program.inputs[:position], new, *program.inputs[position + 1 :])
    return dataclasses.replace(program, inputs=inputs)
